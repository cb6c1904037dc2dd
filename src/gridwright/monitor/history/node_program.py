"""Answers questions of the history of the node that it runs on.

`python -m gridwright.monitor.history.node_program` reads a `HistoryRequest` from each line of stdin, and
prints a `HistoryAnswer` as a line of JSON for each. Nothing is changed. A request that cannot be read ends
it, with exit status 2 and the reason on stderr.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
import time
from pathlib import Path

from gridwright.messages import MessageError, decode, encode
from gridwright.monitor.history.messages import (
    HistoryAnswer,
    HistoryRequest,
    packed_course,
    packed_picture,
)
from gridwright.monitor.history.questions import history_file
from gridwright.monitor.history.reading import StoredHistory, query_history
from gridwright.monitor.history.store import NoHistory


def main() -> int:
    """Answer the requests on stdin, until it ends."""
    for line in iter(sys.stdin.buffer.readline, b""):
        try:
            answer = answered(decode(line, HistoryRequest))
        except MessageError as error:
            print(f"the request cannot be read: {error}", file=sys.stderr)  # noqa: T201 - for who asked
            return 2
        except (NoHistory, sqlite3.Error) as error:
            answer = HistoryAnswer(time.time(), wrong=f"no history: {error}")
        sys.stdout.buffer.write(encode(answer) + b"\n")
        sys.stdout.buffer.flush()
    return 0


def answered(request: HistoryRequest) -> HistoryAnswer:
    """The answer to a request. Raises MessageError, NoHistory, sqlite3.Error."""
    return query_history(history_file(Path(request.directory)), "", lambda history: _answer(request, history))


def _answer(request: HistoryRequest, history: StoredHistory) -> HistoryAnswer:
    now = time.time()
    if request.ask == "reach":
        return HistoryAnswer(now, reach=history.reach())
    if request.ask == "picture":
        seen = history.seen(request.at_s, request.seconds)
        return HistoryAnswer(now, picture=None if seen is None else packed_picture(seen))
    if request.question is None:
        raise MessageError("it is missing", "question")
    return HistoryAnswer(now, course=packed_course(history.course(request.question)))


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        sys.exit(main())
    os._exit(1)
