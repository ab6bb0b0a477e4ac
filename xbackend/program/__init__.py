"""Tracing and the traced program: no framework here."""
