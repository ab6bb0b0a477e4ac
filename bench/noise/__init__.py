"""Where the noise comes from: how much of it is of a process, of a second, of a minute.

    python -m noise numpy jax --program "product 256" --threads 2

run in ``bench``. Some processes of the same program are alive together. They are visited for a few rounds each, in
turns and one after the other; while one is, the others stand still or, with ``--waiting``, only wait.
"""
