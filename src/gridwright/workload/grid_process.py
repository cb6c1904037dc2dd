"""The process that runs the workload of a grid through its scheduler: it opens the grid itself."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from gridwright.schedulers.scheduler import Scheduler
from gridwright.workload.grid_agent import GridAgent


def main() -> None:
    """Serve one request: a line on stdin, whose end is an order to stop."""
    line = bytearray()
    while not line.endswith(b"\n") and (chunk := os.read(0, 1 << 16)):
        line += chunk
    request: dict[str, Any] = json.loads(line)
    GridAgent(request, lambda: _open_scheduler(request)).serve()
    # A call of the scheduler that hangs is no reason to stay.
    os._exit(0)


def _open_scheduler(request: dict[str, Any]) -> Scheduler:
    from gridwright.grid.grid import Grid
    from gridwright.spec import parse_spec

    # The text as the command read it: the file may have been changed meanwhile.
    file = Path(request["spec_file"] or "grid.yaml")
    spec = parse_spec(request["spec_text"], str(file), file.absolute().parent)
    return Grid.open(spec).scheduler


if __name__ == "__main__":
    main()
