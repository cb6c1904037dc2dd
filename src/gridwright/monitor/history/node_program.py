"""Answers a question of the history of the node that it runs on.

`python -m gridwright.monitor.history.node_program` reads a `HistoryRequest` (one line of JSON on stdin) and
prints a `HistoryAnswer`. Nothing is changed. Without a history, exit status 3 and the reason on stderr.
"""

from __future__ import annotations

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
from gridwright.monitor.history.places import history_file
from gridwright.monitor.history.reading import StoredHistory
from gridwright.monitor.history.store import NoHistory


def main() -> int:
    """Answer the request on stdin."""
    try:
        request = decode(sys.stdin.buffer.readline(), HistoryRequest)
        answer = answered(request)
    except MessageError as error:
        print(f"the request cannot be read: {error}", file=sys.stderr)  # noqa: T201 - for who asked
        return 2
    except (NoHistory, sqlite3.Error) as error:
        print(f"no history: {error}", file=sys.stderr)  # noqa: T201 - for who asked
        return 3
    sys.stdout.buffer.write(encode(answer) + b"\n")
    return 0


def answered(request: HistoryRequest) -> HistoryAnswer:
    """The answer to a request. Raises MessageError, NoHistory, sqlite3.Error."""
    with StoredHistory(history_file(Path(request.directory)), "") as history:
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
    sys.exit(main())
