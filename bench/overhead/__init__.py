"""What xbackend costs over its frameworks, measured: its call beside the one written by hand, tracing, import, stages.

`calls`, `placements`, `trainings`, `host_copies` and `handwritten` run in a worker, beside the framework, and need
nothing more than it has. `targets`, `placement_targets` and `training_targets` ask for them (`asking`) and hold the
limits; `document` writes what was found.
"""

from __future__ import annotations

from pathlib import Path

# What a worker can import beside xbackend (`RemoteBackend(modules=...)`): the tasks name its functions.
MODULES = {__name__: str(Path(__file__).parent)}
