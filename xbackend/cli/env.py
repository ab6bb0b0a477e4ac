"""``env``: the frameworks' environments."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from xbackend import environments
from xbackend.cli import DONE, options, output
from xbackend.cli.console import progress, table
from xbackend.cli.output import Output
from xbackend.errors import UsageError
from xbackend.wording import counted, placed


def env(
    action: Annotated[Literal["list", "sync", "remove"], Parameter(help="what to do")],
    /,
    *names: options.Environment,
    python: options.Python = None,
    accelerator: options.Accelerator = None,
    printed: options.Printed = options.PRINTED,
) -> Output:
    """List, make or remove environments."""
    if action == "remove" and not names:
        raise UsageError(f"name the environments to remove; there is {', '.join(environments.names())}")
    # An unknown name is an error before anything is done.
    asked = list(dict.fromkeys(environments.get(name).name for name in names))
    if action != "list":
        with progress() as shown:
            for name, place in placed(asked or environments.names()):
                shown(f"environment {name}{place}")
                if action == "sync":
                    environments.sync(name, on_progress=shown, hashes=True)
                else:
                    environments.remove(name, on_progress=shown)
    listed = [e for e in environments.list() if not asked or e.name in asked]
    listed += [environments.get(name) for name in asked if name not in {e.name for e in listed}]
    table(
        ["environment", "state", "path", "why, and what to type"],
        [[e.name, e.state, str(e.path), e.reason] for e in listed],
    )
    ready = [e.name for e in listed if e.state == "ready"]
    return output.Env(
        exit_code=DONE,
        answer=f"{len(ready)} of {counted(len(listed), 'environment')} ready",
        rows=[output.Room(environment=e.name, state=e.state, path=str(e.path), reason=e.reason) for e in listed],
    )
