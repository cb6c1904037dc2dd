"""The process that writes tables: one request a line on stdin, one answer a line on stdout.

Request: `{"table", "path", "units", "seed", "copy"}`. Answer: `{"made": …}` or `{"error", "errno"}`.
It dies with its parent (PR_SET_PDEATHSIG, prctl(2)).
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from gridwright.schedulers.process_tree import die_with_parent


def main() -> None:
    """Serve requests until stdin ends."""
    die_with_parent(int(sys.argv[1]))
    from gridwright.workload.datasets.catalogue import TABLES
    from gridwright.workload.datasets.generate import write_table

    for line in sys.stdin:
        request = json.loads(line)
        try:
            path = Path(request["path"])
            path.parent.mkdir(parents=True, exist_ok=True)
            made = write_table(
                TABLES[request["table"]],
                path,
                units=request["units"],
                seed=request["seed"],
                copy=request["copy"],
            )
            answer: dict[str, object] = {"made": asdict(made)}
        except OSError as error:
            answer = {"error": error.strerror or str(error), "errno": error.errno, "path": str(path)}
        os.write(sys.stdout.fileno(), json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main()
