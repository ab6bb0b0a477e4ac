"""What was measured, on disk: `results` the schema, `journal` a line for each round, `runs` the folder of all runs.

`journal` is the part that workers import, and needs the standard library only.
"""

from pathlib import Path

FOLDER = Path(".xbackend/runs")  # of all runs, under the current directory
