"""Two hosts on one machine: network namespaces joined by a link of a given delay and rate, and MPI's ranks on them.

`namespaces` makes and removes them, `relay` is the link, `rank` measures in a process on a host (in an environment of a
backend, with the standard library, NumPy, mpi4py and xbackend's engines), `measured` starts all of it.
`scaling` models how far clusters scale, `predictions` sets it beside the measurements, `picture` draws its curves.
"""
