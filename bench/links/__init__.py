"""Two hosts on one machine: network namespaces joined by a link of a given delay and rate, and MPI's ranks on them.

`namespaces` makes and removes them, `relay` is the link, `rank` what a process on a host measures (it runs in an
environment of a backend: the standard library, NumPy, mpi4py and xbackend's engines), `measured` starts all of it.
`scaling` models how far clusters scale, `predictions` sets it beside the measurements, `picture` draws its curves.
"""
