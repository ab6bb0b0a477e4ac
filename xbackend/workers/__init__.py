"""Backends in processes of their own: `RemoteBackend`, and `xbackend.open`.

This file imports nothing: a worker imports the package too, without uv and platformdirs.
"""
