"""Backends in processes of their own: `RemoteBackend`, and `xbackend.open`.

Imports nothing here: a worker imports this package too, and has neither uv nor platformdirs.
"""
