"""``python -m xbackend.cli``: the same as ``xbackend``."""

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # the current folder: nothing of ours is imported from it

from xbackend.cli import main

sys.exit(main())
