"""Programs of several processes as users of each engine write them, without xbackend: every file is run as it is, once
for each process. Its only argument is a `told.Told` in JSON. It writes its answer into a file.

``add_rank``: each worker adds its rank, counted from 1, to a number that a server holds. ``mirrored``: a classifier,
each worker with the weights and its share of the rows, gradients averaged. ``served``: the weights on a server, to
which each worker brings its update.
"""
