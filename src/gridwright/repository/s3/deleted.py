"""Objects that were deleted where a bucket keeps versions, and are made anew.

versitygw 1.8.0 takes a delete marker for the version before it, in both conditions of a request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from gridwright.repository.s3.answers import unquoted
from gridwright.repository.s3.plain import PlainConnection
from gridwright.repository.s3.request_threads import Work
from gridwright.repository.s3.under_way import hand_on
from gridwright.repository.store import StoreError, StoreFault, WriteCondition, WrittenObject


def unless_deleted(
    made: Future[WrittenObject],
    look: Callable[[], str | None],
    over: Callable[[WriteCondition], Future[WrittenObject]],
    put: Callable[[Work], None],
) -> Future[WrittenObject]:
    """What was made where none should be; made over what was deleted, where that alone is in the way.

    `look` gives the ETag of what was deleted, and `put` has a thread do something.
    """
    future: Future[WrittenObject] = Future()

    def again(_: PlainConnection) -> None:
        try:
            etag = look()
            if etag is None:
                hand_on(made, future)
            else:
                over(WriteCondition(etag=etag)).add_done_callback(lambda done: hand_on(done, future))
        except BaseException as error:
            future.set_exception(error)

    def go_on(_: Future[WrittenObject]) -> None:
        error = made.exception()
        if isinstance(error, StoreError) and error.fault is StoreFault.CHANGED:
            put(again)
        else:
            hand_on(made, future)

    made.add_done_callback(go_on)
    return future


def last_version(listed: Mapping[str, Any], key: str) -> str | None:
    """The ETag of the last version of a key that is deleted, of an answer to ListObjectVersions."""
    markers = [each for each in listed.get("DeleteMarkers", ()) if each["Key"] == key]
    etags = [each["ETag"] for each in listed.get("Versions", ()) if each["Key"] == key]
    return unquoted(etags[0]) if etags and any(each["IsLatest"] for each in markers) else None
