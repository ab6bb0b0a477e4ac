"""``python -m xbackend.cli``: the same as ``xbackend``."""

import sys

from xbackend.cli import main

sys.exit(main())
