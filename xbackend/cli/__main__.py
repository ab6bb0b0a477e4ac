"""``python -m xbackend.cli``: the same as ``xbackend``."""

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # the current folder, in which nothing of ours is looked up

from xbackend.cli import main

sys.exit(main())
