"""Carries out one action: what is restored is held against its object, what is archived goes over no other.

A restore needs nothing but the file's own attribute, so that agents on several nodes share no state.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from gridwright.repository.content import CHUNK, FileContent, Torn, crc64_of, is_same_content
from gridwright.repository.copytool.liblustreapi import BegunAction, CopytoolHandle, Fid, copy_layout
from gridwright.repository.keys import KeyRefusal, Keys, bucket_of, prefix_of
from gridwright.repository.object_format import metadata_of
from gridwright.repository.references import (
    ContentPlace,
    FileState,
    ObjectReference,
    StateError,
    clear_state,
    read_state,
    write_state,
)
from gridwright.repository.sending import Sending, check_stored
from gridwright.repository.store import (
    ObjectStore,
    StoreError,
    StoreFault,
    WriteCondition,
    WrittenObject,
    crc64,
)

BEAT_S = 10.0
"""How often the coordinator is told that an action goes on; it gives up after active_request_timeout."""
_LOOK_S = 0.1
T = TypeVar("T")


class ActionRefused(Exception):
    """An action cannot be carried out: the errno for Lustre, and why for the log."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(why)
        self.errno = number


@dataclass(slots=True)
class Underway:
    """An action that was begun: what was moved of it, and whether anybody still wants it."""

    begun: BegunAction
    total: int = 0
    moved: int = 0
    """Bytes; added to from other threads."""
    wanted: bool = True
    _told: int = 0
    _told_at: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, size: int) -> None:
        """Count bytes that were moved."""
        with self._lock:
            self.moved += size

    def beat(self) -> None:
        """Tell the coordinator, when it is time. Raises ActionRefused where the action was cancelled."""
        if not self.wanted:
            raise ActionRefused(errno.ECANCELED, "it was cancelled")
        if time.monotonic() - self._told_at < BEAT_S:
            return
        self._told_at = time.monotonic()
        now = min(self.moved, self.total)
        try:
            self.begun.progress(self._told, max(now - self._told, 0))
        except OSError as error:
            if error.errno == errno.ECANCELED:
                raise ActionRefused(errno.ECANCELED, "it was cancelled") from None
            raise
        self._told = max(now, self._told)


@dataclass(frozen=True, slots=True)
class Carrier:
    """Carries actions between one repository and its bucket; used by many threads.

    `store_of` gives the store of a bucket; `directory` is relative to the mount, without `/` at either end;
    `tried` tries the bucket's store unless that was done.
    """

    handle: CopytoolHandle
    store_of: Callable[[str], ObjectStore]
    directory: bytes
    bucket_url: str
    patience_s: float
    removes: bool
    stop: threading.Event
    tried: Callable[[], Future[None]]

    def restore(self, underway: Underway) -> int:
        """Bring a file's content; its size in bytes. Raises ActionRefused, StoreError, OSError."""
        path = self.handle.fid_path(underway.begun.action.fid)
        state = _state(path)
        if state is None:
            raise ActionRefused(errno.EIO, "no attribute says which object it is")
        reference = state.reference
        underway.total = reference.size
        content = underway.begun.open_content()
        try:
            copy_layout(self._source_of_layout(path, state, underway.begun.action.fid), content)
            future = self._fetched(reference, content, underway)
            found = self._await(future, underway, reference.key) or _crc64(content, underway)
            if state.crc64 not in (None, found):
                said = f"its content has CRC {found} where {state.crc64} was exported"
                raise StoreError(StoreFault.DAMAGED, reference.key, said)
        finally:
            os.close(content)
        return reference.size

    def _source_of_layout(self, path: bytes, state: FileState, fid: Fid) -> bytes:
        """What has the layout that the content gets: of a name that never had any, its directory."""
        if state.is_name_only and not state.had_content:
            with suppress(OSError):
                directory, _, _ = self.handle.path_of(fid).rpartition(b"/")
                return os.fsencode(self.handle.mount) + b"/" + directory
        return path

    def note_restored(self, underway: Underway) -> None:
        """The content is in place: the file is no name only any more. Raises OSError.

        Its object may change from now on, so that Lustre alone must not take it for archived: a release by
        its owner (lfs hsm_release) would free it, whatever the bucket has by then.
        """
        self.handle.forget_archived(underway.begun.action.fid)
        path = self.handle.fid_path(underway.begun.action.fid)
        state = _state(path)
        if state is not None and state.is_name_only:
            write_state(path, FileState(state.reference, ContentPlace.EXPORTED, state.mtime_ns, state.crc64))

    def archive(self, underway: Underway) -> int:
        """Send a file to its object, over nothing that somebody else has written; its size in bytes.

        Raises ActionRefused, GridwrightError (a StoreError, or a store that is not safe), OSError.
        """
        fid = underway.begun.action.fid
        path, state = self._below(self.handle.path_of(fid)), _state(self.handle.fid_path(fid))
        keys = Keys(prefix_of(self.bucket_url))
        try:
            key = keys.key_of(path)
        except KeyRefusal as refusal:
            raise ActionRefused(errno.EINVAL, refusal.reason) from None
        known = state.reference if state is not None and state.reference.key == key else None
        condition = WriteCondition(etag=known.etag) if known else WriteCondition(none_there=True)
        store = self.store_of(bucket_of(self.bucket_url))
        self._await(self.tried(), underway, key)
        descriptor = underway.begun.open_content()
        try:
            content = FileContent(descriptor)
            underway.total = content.size
            sending = Sending(path, key, content.status, descriptor, content, None)
            stored, crc64 = self._sent(store, sending, content, condition, underway)
        except Torn:
            raise ActionRefused(errno.EAGAIN, "it changed while it was read; nothing was sent") from None
        finally:
            os.close(descriptor)
        reference = ObjectReference(self.bucket_url, key, stored.etag, stored.version_id, content.size)
        write_state(
            self.handle.fid_path(fid),
            FileState(reference, ContentPlace.EXPORTED, content.status.st_mtime_ns, crc64),
        )
        return content.size

    def remove(self, underway: Underway) -> int:
        """Delete a file's object, where that is allowed and it is the known one. Raises ActionRefused."""
        if not self.removes:
            raise ActionRefused(errno.EPERM, "objects are not deleted unless --remove says so; it stays")
        path = self.handle.fid_path(underway.begun.action.fid)
        try:
            state = _state(path)
        except FileNotFoundError:
            raise ActionRefused(
                errno.ENOENT, "the file is gone, which alone says what object it had"
            ) from None
        if state is None:
            raise ActionRefused(errno.ENOENT, "no attribute says which object it is")
        store = self.store_of(state.reference.bucket)
        head = self._await(store.head(state.reference.key), underway, state.reference.key)
        if head.entry.etag != state.reference.etag:
            raise ActionRefused(errno.EEXIST, "somebody else has written its object; it stays")
        store.delete(state.reference.key, state.reference.etag)
        clear_state(path)
        return 0

    def _fetched(self, reference: ObjectReference, content: int, underway: Underway) -> Future[str | None]:
        # A fetch that is given up goes on for a while, with a descriptor of its own.
        own = os.dup(content)
        try:
            future = self.store_of(reference.bucket).fetch(reference, own, underway.add)
        except BaseException:
            os.close(own)
            raise
        future.add_done_callback(lambda _: os.close(own))
        return future

    def _sent(
        self,
        store: ObjectStore,
        sending: Sending,
        content: FileContent,
        condition: WriteCondition,
        underway: Underway,
    ) -> tuple[WrittenObject, str]:
        """Have it sent; what the store has then, and the CRC of the content."""
        if sending.descriptor is None:
            raise AssertionError("a file is sent from its descriptor")
        metadata = metadata_of(sending.attributes)
        future = store.send(sending.key, content, metadata, condition, underway.add)
        try:
            stored = check_stored(store, sending, self._await(future, underway, sending.key))
            return stored, content.crc64
        except StoreError as error:
            if error.fault is not StoreFault.CHANGED:
                raise
        # As after a kill between the object and the attribute: the same content is no conflict.
        head = self._await(store.head(sending.key), underway, sending.key)
        if not is_same_content(sending.descriptor, head):
            raise ActionRefused(
                errno.EEXIST, "both the file and its object were changed; neither was overwritten"
            )
        crc64 = head.crc64 or crc64_of(sending.descriptor)
        return WrittenObject(head.entry.etag, head.version_id, crc64), crc64

    def _await(self, future: Future[T], underway: Underway, key: str) -> T:
        """What comes of a future, with the coordinator told meanwhile; within the patience."""
        seen, since = underway.moved, time.monotonic()
        while True:
            try:
                return future.result(_LOOK_S)
            except TimeoutError:
                if future.done():
                    raise
            if self.stop.is_set():
                raise ActionRefused(errno.EINTR, "this copytool ends")
            underway.beat()
            if underway.moved != seen:
                seen, since = underway.moved, time.monotonic()
            if time.monotonic() - since > self.patience_s:
                raise StoreError(StoreFault.UNREACHABLE, key, f"nothing came for {self.patience_s:g} s")

    def _below(self, path: bytes) -> bytes:
        if not self.directory:
            return path
        if not path.startswith(self.directory + b"/"):
            raise ActionRefused(errno.EINVAL, "it does not lie in the repository's directory")
        return path[len(self.directory) + 1 :]


def _state(path: bytes) -> FileState | None:
    try:
        return read_state(path)
    except StateError as error:
        raise ActionRefused(errno.EIO, f"its attribute cannot be read: {error}") from error


def _crc64(descriptor: int, underway: Underway) -> str:
    """CRC-64/NVME of an open file, with the coordinator told meanwhile."""
    buffer, offset, state = memoryview(bytearray(CHUNK)), 0, 0
    while got := os.preadv(descriptor, [buffer], offset):
        state = crc64(buffer[:got], state)
        offset += got
        underway.beat()
    return f"{state:016x}"
