"""The process that writes tables: one request a line on stdin, one answer a line on stdout.

It is asked with a `TableRequest`, and answers with a `TableAnswer`. It dies with its parent
(PR_SET_PDEATHSIG, prctl(2)).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from gridwright.beneath import descriptor_path
from gridwright.errors import GridwrightError
from gridwright.messages import decode, encode
from gridwright.schedulers.process_tree import die_with_parent
from gridwright.workload.data_set import opened_below
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
            # LIBRARY/HOME/SET/COPY/TABLE: from the library on, other users may write.
            with opened_below(path.parents[3], path.parts[-4:-1], make=True) as directory:
                made = write_table(
                    TABLES[request.table],
                    Path(descriptor_path(directory)) / path.name,
                    units=request.units,
                    seed=request.seed,
                    copy=request.copy,
                )
            answer = TableAnswer(made)
        except GridwrightError as error:
            answer = TableAnswer(error=str(error), path=str(path))
        except OSError as error:
            answer = TableAnswer(error=error.strerror or str(error), path=str(path))
        os.write(sys.stdout.fileno(), encode(answer) + b"\n")


if __name__ == "__main__":
    main()
