"""Drawings of programs and of what was executed: a graph by device, as Mermaid, DOT or SVG."""
