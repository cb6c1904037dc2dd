"""The process that runs the workload of a grid through its scheduler: it opens the grid itself."""

from __future__ import annotations

import os
from pathlib import Path

from gridwright.messages import decode, typed
from gridwright.schedulers.scheduler import Scheduler
from gridwright.workload.messages import GridRequest, GridSource
from gridwright.workload.on_grid.agent import GridAgent


def main() -> None:
    """Serve one request: a line on stdin, whose end is an order to stop."""
    line = bytearray()
    while not line.endswith(b"\n") and (chunk := os.read(0, 1 << 16)):
        line += chunk
    request = decode(bytes(line), GridRequest)
    GridAgent(request, lambda: _open_scheduler(request)).serve()
    # A call of the scheduler that hangs is no reason to stay.
    os._exit(0)


def _open_scheduler(request: GridRequest) -> Scheduler:
    from gridwright.grid.grid import Grid
    from gridwright.spec import parse_spec

    source = typed(request.grid, GridSource)
    file = Path(source.spec_file or "grid.yaml")
    spec = parse_spec(source.spec_text, str(file), file.absolute().parent)
    return (Grid.on_its_head(spec) if source.on_head else Grid.open(spec)).scheduler


if __name__ == "__main__":
    main()
