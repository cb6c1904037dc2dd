"""The process that writes tables: one request a line on stdin, one answer a line on stdout.

It is asked with a `TableRequest`, and answers with a `TableAnswer`. It dies with its parent
(PR_SET_PDEATHSIG, prctl(2)).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from gridwright.messages import decode, encode
from gridwright.schedulers.process_tree import die_with_parent
from gridwright.workload.messages import TableAnswer, TableRequest


def main() -> None:
    """Serve requests until stdin ends."""
    die_with_parent(int(sys.argv[1]))
    from gridwright.workload.datasets.catalogue import TABLES
    from gridwright.workload.datasets.generate import write_table

    for line in sys.stdin:
        request = decode(line, TableRequest)
        path = Path(request.path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            made = write_table(
                TABLES[request.table],
                path,
                units=request.units,
                seed=request.seed,
                copy=request.copy,
            )
            answer = TableAnswer(made)
        except OSError as error:
            answer = TableAnswer(error=error.strerror or str(error), path=str(path))
        os.write(sys.stdout.fileno(), encode(answer) + b"\n")


if __name__ == "__main__":
    main()
