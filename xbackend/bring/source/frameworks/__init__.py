"""A file for each framework: its `DIALECT`, the class of how its code is written."""
