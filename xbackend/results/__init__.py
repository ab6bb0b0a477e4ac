"""What was measured, on disk: `results` the schema, `runs` the runs of a store, `database` its file."""

from pathlib import Path

FOLDER = Path(".xbackend/runs")  # of all runs, under the current directory
