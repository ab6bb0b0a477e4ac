"""``python -m xbackend``: the same as ``xbackend``."""

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # the current folder: it must not shadow our modules

from xbackend.cli import main

sys.exit(main())
