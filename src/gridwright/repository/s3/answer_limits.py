"""How much, and how slowly, a store may answer: it may be anybody's, and holds nobody up for ever."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

LONGEST_BODY = 5 << 20
"""Bytes of an answer that is taken as a whole: a page of a listing has 1,000 keys of 1 KiB, as `%41` each."""
PATIENCE_S = 60.0
"""After so many seconds of waiting alone an answer that has brought too little is given up."""
SLOWEST = 1024
"""Bytes a second that an answer has to bring."""
_PIECE = 64 << 10


class TooMuch(Exception):
    """An answer is longer than any that is asked for, or comes too slowly to be waited for."""


class AnswerLimits:
    """Counts what an answer brings, and how long was waited for it. One thread uses it."""

    def __init__(self) -> None:
        self._waited_s, self._bytes = 0.0, 0

    def begin(self) -> None:
        """Begin with another answer."""
        self._waited_s, self._bytes = 0.0, 0

    def got(self, count: int, waited_s: float) -> None:
        """Count what came in so many seconds of waiting. Raises TooMuch."""
        self._bytes += count
        self._waited_s += waited_s
        if self._waited_s > PATIENCE_S:
            if self._bytes < PATIENCE_S * SLOWEST:
                raise TooMuch(f"it gave {self._bytes} bytes in {self._waited_s:.0f} s")
            self.begin()


class BoundedSession:
    """botocore's session of HTTP, whose answers are read with these bounds."""

    def __init__(self, session: Any) -> None:  # noqa: ANN401 - botocore's
        self._session = session

    def send(self, request: Any) -> Any:  # noqa: ANN401
        """Send a request; the answer to it. Raises BotoCoreError."""
        is_stream, request.stream_output = request.stream_output, True
        try:
            answer = self._session.send(request)
        finally:
            request.stream_output = is_stream
        answer.raw = _BoundedBody(answer.raw)
        if not is_stream:
            # botocore reads it here, too, so that what breaks is an error of the connection.
            _ = answer.content
        return answer

    def close(self) -> None:
        """Close it."""
        self._session.close()


class _BoundedBody:
    """A body of an answer, as urllib3 has it."""

    def __init__(self, raw: Any) -> None:  # noqa: ANN401
        self._raw = raw
        self._limits = AnswerLimits()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._raw, name)

    def stream(self) -> Iterator[bytes]:
        """All of it, up to what is taken as a whole. Raises BotoCoreError."""
        total = 0
        while piece := self._some(_PIECE):
            total += len(piece)
            if total > LONGEST_BODY:
                raise _failure(TooMuch(f"its answer has more than {LONGEST_BODY} bytes"))
            yield piece

    def read(self, amt: int | None = None) -> bytes:
        """So many bytes, or less at the end; None reads all of it. Raises BotoCoreError."""
        if amt is None:
            return b"".join(self.stream())
        pieces, left = [], amt
        while left and (piece := self._some(left)):
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)

    def _some(self, most: int) -> bytes:
        from urllib3.exceptions import HTTPError

        since_s = time.monotonic()
        try:
            # urllib3 1.26 has no read1, and waits until it has all.
            found = (
                self._raw.read1(most) if hasattr(self._raw, "read1") else self._raw.read(min(most, SLOWEST))
            )
            self._limits.got(len(found), time.monotonic() - since_s)
        except (HTTPError, OSError, TooMuch) as error:
            raise _failure(error) from error
        return bytes(found)


def _failure(error: Exception) -> Any:  # noqa: ANN401 - botocore has no types
    from botocore.exceptions import HTTPClientError

    failure: Exception = HTTPClientError(error=error)
    return failure
