"""What scripts and notebooks call: `comparing`, a session as the command measures it, and `compared`, what it gives."""
