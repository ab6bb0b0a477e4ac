"""For scripts and notebooks: `comparing`, a session as the command measures it, and `compared`, its results."""
