"""One round of `gridwright watch`: `python -m gridwright.cli.watch.watch_round` reads a RoundRequest.

A process of its own for each round: one that hangs can be ended, and what it loaded is gone with it.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gridwright.cli.named_spec import naming_spec, with_named_spec
from gridwright.errors import GridwrightError
from gridwright.messages import decode
from gridwright.watch.rounds import ANSWERS, RoundRefused, RoundReport, RoundRequest

if TYPE_CHECKING:
    from gridwright.grid.grid import Grid
    from gridwright.spec import GridSpec


def main() -> None:
    """Do one round, and tell what it saw."""
    # The watch ends it so, and connections are to be taken down.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    request = decode(sys.stdin.read(), RoundRequest)
    answer: RoundReport | RoundRefused
    try:
        seen = _look(request)
        found = [replace(each, remedy=with_named_spec(each.remedy)) for each in seen.found]
        answer = replace(seen, found=found)
    except GridwrightError as error:
        problem = naming_spec(error.problems[0])
        where = f"{problem.where}: " if problem.where else ""
        answer = RoundRefused(f"{where}{problem.what}", problem.remedy or "")
    print(ANSWERS.encode(answer).decode())  # noqa: T201 - the answer


def _look(request: RoundRequest) -> RoundReport:
    from gridwright.cli.data.desired_layouts import layout_wishes
    from gridwright.cli.data.repo_of_grid import refused_deletions
    from gridwright.cli.spec_file import load_placed
    from gridwright.doctor.access import access_to
    from gridwright.doctor.checks import all_checks
    from gridwright.doctor.examination import see
    from gridwright.watch.judging import round_report

    spec = load_placed(Path(request.spec)) if request.spec is not None else None
    checks = [check for check in all_checks() if request.everything or check.is_cheap]
    # A job on each node each minute would be dear, and the account of the service has none.
    by_jobs = request.everything and not request.on_head
    access = (
        None
        if spec is None
        else access_to(_grid(spec, request), by_jobs=by_jobs, settings=request.everything)
    )
    seen = see(
        spec,
        access,
        pairs=request.everything,
        wishes=layout_wishes(spec) if spec is not None and request.everything else None,
        only=None if request.everything else checks,
    )
    if spec is not None and request.everything:
        seen = replace(seen, refused_deletions=refused_deletions(spec))
    return round_report(
        seen,
        checks,
        request.known,
        everything=request.everything,
        level=request.level,
        as_service=request.on_head and os.geteuid() != 0,
    )


def _grid(spec: GridSpec, request: RoundRequest) -> Grid:
    from gridwright.grid.grid import Grid

    return Grid.on_its_head(spec) if request.on_head else Grid.open(spec)


if __name__ == "__main__":
    main()
