"""Tracing: the user's function is called once with traced arrays, and its operations become the nodes of a program."""
