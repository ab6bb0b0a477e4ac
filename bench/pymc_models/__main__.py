"""The commands.

    export PYTHONPATH=bench
    python -m pymc_models bring MODELS FOLDER               # once: programs, points, and PyTensor's own numbers
    python -m pymc_models run FOLDER --backends jax,pytensor
    python -m pymc_models tables FOLDER                     # the tables of docs/bring_models.md
    python -m pymc_models tables FOLDER --core MODELS.md    # times of those that it names, `models/NAME.py`

MODELS is a folder of files that have a function ``build_model()``. Each file is built by a process of its own, in the
environment of `--from pymc`, or by ``--python``. Log-density and gradient are those of one flat vector: at the initial
point, and at two with 0.1 and 0.3 times a normal number added. What was done is not done again: each result is a line
of FOLDER/results.jsonl. A backend's process is ended after ``--limit`` seconds for one request, which is its result.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pymc_models.bringing import bring
from pymc_models.running import run
from pymc_models.tables import tables


def main() -> None:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    bringing = commands.add_parser("bring")
    bringing.add_argument("models", type=Path)
    bringing.add_argument("folder", type=Path)
    bringing.add_argument("--python", help="an interpreter that has PyMC")
    bringing.add_argument("--limit", type=float, default=600)
    bringing.set_defaults(do=lambda told: bring(told.models, told.folder, told.python, told.limit))
    running = commands.add_parser("run")
    running.add_argument("folder", type=Path)
    running.add_argument("--backends", required=True)
    running.add_argument("--limit", type=float, default=120)
    running.add_argument("--only", help="names of models, with commas between")
    running.add_argument("--gradients", action="store_true", help="no log-density is compiled without its gradient")
    running.set_defaults(
        do=lambda t: run(t.folder, t.backends.split(","), t.limit, t.only and t.only.split(","), t.gradients)
    )
    showing = commands.add_parser("tables")
    showing.add_argument("folder", type=Path)
    showing.add_argument("--core", type=Path, help="a document that names models, as `models/NAME.py`: their times")
    showing.set_defaults(do=lambda told: tables(told.folder, told.core))
    told = parser.parse_args()
    told.do(told)


if __name__ == "__main__":
    main()
