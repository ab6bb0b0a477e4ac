"""Results on disk: `schema`, `runs`, the runs of a store, and `database`, its file."""

from pathlib import Path

FOLDER = Path(".xbackend/runs")  # of all runs, under the current directory
