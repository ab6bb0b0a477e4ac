"""The user's function called once with traced arrays: what it does to them becomes the nodes of a program."""
