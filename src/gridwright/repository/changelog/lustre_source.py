"""Changelogs and FIDs of a mounted Lustre, by liblustreapi.

Prototypes: lustre/include/lustre/lustreapi.h of Lustre 2.12 to 2.17; meaning:
lustre/utils/liblustreapi_chlg.c and `lfs_fid2path` of lustre/utils/lfs.c. A changelog is read from the device
`/dev/changelog-MDT`, which root alone may open.

A client whose server is away asks for ever, and no thread can be taken out of that: questions are asked by
threads that a command does not wait for when it ends.
"""

from __future__ import annotations

import ctypes
import errno
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char_p, c_int, c_longlong, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

from gridwright.repository.changelog.records import HEAD_BYTES, ChangeRecord, parse_record, size_of
from gridwright.repository.copytool.liblustreapi import NO_MESSAGES, Fid

T = TypeVar("T")
R = TypeVar("R")
THREADS = 8
"""Each question goes to a server and back."""
PATIENCE_S = 300.0
"""A server that is started anew lets its clients wait for minutes."""
_LOOK_S = 0.2
"""How long a signal may wait."""


@dataclass(frozen=True, slots=True)
class _Failure:
    error: Exception


def answers(
    question: Callable[[T], R], items: Iterable[T], threads: int = THREADS, patience_s: float = PATIENCE_S
) -> Iterator[R]:
    """What a function gives for each item, in any order; items are taken in the caller's thread.

    Raises what the function raises, and OSError (ETIMEDOUT) where nothing is answered for `patience_s`.
    """
    asked: queue.SimpleQueue[tuple[T, ...]] = queue.SimpleQueue()
    answered: queue.SimpleQueue[R | _Failure] = queue.SimpleQueue()

    def work() -> None:
        while item := asked.get():
            try:
                answered.put(question(*item))
            except Exception as error:  # It is raised where the answers are wanted.
                answered.put(_Failure(error))

    for _ in range(threads):
        threading.Thread(target=work, daemon=True).start()
    waiting, under_way = iter(items), 0
    try:
        while True:
            for item in islice(waiting, 2 * threads - under_way):
                asked.put((item,))
                under_way += 1
            if not under_way:
                return
            found = _next(answered, patience_s)
            under_way -= 1
            if isinstance(found, _Failure):
                raise found.error
            yield found
    finally:
        for _ in range(threads):
            asked.put(())


def answer(question: Callable[[], R], patience_s: float = PATIENCE_S) -> R:
    """What a function gives, asked in the same way. Raises what it raises, and OSError (ETIMEDOUT)."""
    (found,) = answers(lambda each: each(), [question], 1, patience_s)
    return found


def _next(answered: queue.SimpleQueue[T], patience_s: float) -> T:
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return answered.get(timeout=_LOOK_S)
        except queue.Empty:
            if time.monotonic() > deadline:
                raise OSError(errno.ETIMEDOUT, f"nothing was answered for {patience_s:g} s") from None


_NAME = "liblustreapi.so.1"
_WITH_JOB, _WITH_EXTRA = 0x04, 0x08
"""CHANGELOG_FLAG_JOBID and CHANGELOG_FLAG_EXTRA_FLAGS: without, the library warns on stderr."""
_LONGEST_PATH = 4096
_AT_ONCE = 500
_MOST_LINKS = 65_000
"""More than a file of Lustre can have; a library that never comes to an end is not followed."""


class _LuFid(ctypes.Structure):
    """`struct lu_fid`."""

    _fields_ = (("sequence", c_uint64), ("object", c_uint32), ("version", c_uint32))


class LustreSource:
    """One mounted Lustre. Its calls may come from several threads, and none waits for ever but `paths_of`."""

    def __init__(self, mount: Path) -> None:
        """Raises OSError where the library is not installed, or has not what is asked for."""
        self._mount = os.fsencode(mount)
        calls = ctypes.CDLL(_NAME)
        try:
            for name, arguments in {
                "llapi_changelog_start": (POINTER(c_void_p), c_int, c_char_p, c_longlong),
                "llapi_changelog_recv": (c_void_p, POINTER(c_void_p)),
                "llapi_changelog_free": (POINTER(c_void_p),),
                "llapi_changelog_fini": (POINTER(c_void_p),),
                "llapi_changelog_clear": (c_char_p, c_char_p, c_longlong),
                "llapi_lmv_get_uuids": (c_int, c_void_p, POINTER(c_int)),
                "llapi_path2fid": (c_char_p, POINTER(_LuFid)),
                "llapi_fid2path": (c_char_p, c_char_p, c_char_p, c_int, POINTER(c_longlong), POINTER(c_int)),
            }.items():
                call = getattr(calls, name)
                call.argtypes, call.restype = arguments, c_int
            calls.llapi_msg_set_level(NO_MESSAGES)
        except AttributeError as error:
            raise OSError(errno.ENOSYS, f"{_NAME} has not all that is asked for: {error}") from error
        self._calls = calls

    def mdt_count(self) -> int:
        """How many MDTs it has. Raises OSError.

        llapi_get_obd_count(3) is no help: for MDTs it gives the size of a table, 64 of Lustre 2.17.
        """

        def counted() -> int:
            count = c_int(0)
            root = os.open(self._mount, os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK)
            try:
                _done(self._calls.llapi_lmv_get_uuids(root, None, byref(count)))
            finally:
                os.close(root)
            return count.value

        return answer(counted)

    def fid_of(self, path: bytes) -> Fid:
        """The FID of an absolute path. Raises OSError."""
        found = _LuFid()
        answer(lambda: _done(self._calls.llapi_path2fid(path, byref(found))))
        return Fid(found.sequence, found.object, found.version)

    def records(self, mdt: str, first: int) -> Iterator[ChangeRecord]:
        """Records of an MDT from an index on, to the last one. Raises OSError, RecordError."""
        reading = self._read(mdt, first)
        while some := answer(lambda: list(islice(reading, _AT_ONCE))):
            yield from some

    def _read(self, mdt: str, first: int) -> Iterator[ChangeRecord]:
        with self._opened(mdt, first) as reader:
            record = c_void_p()
            while True:
                if _done(self._calls.llapi_changelog_recv(reader, byref(record))) == 1:
                    return
                try:
                    found = parse_record(ctypes.string_at(record.value or 0, _size(record)))
                finally:
                    self._calls.llapi_changelog_free(byref(record))
                if found.index >= first:
                    yield found

    @contextmanager
    def _opened(self, mdt: str, first: int) -> Iterator[c_void_p]:
        reader = c_void_p()
        flags = _WITH_JOB | _WITH_EXTRA
        _done(self._calls.llapi_changelog_start(byref(reader), flags, mdt.encode(), first))
        try:
            yield reader
        finally:
            self._calls.llapi_changelog_fini(byref(reader))

    def clear(self, mdt: str, user: str, last: int) -> None:
        """Give up records up to an index above 0. Raises OSError: ENOENT where nobody is registered so."""
        if last < 1:
            raise ValueError("0 gives up all records, those that nobody has read among them")
        answer(lambda: _done(self._calls.llapi_changelog_clear(mdt.encode(), user.encode(), last)))

    def paths_of(self, fid: Fid) -> list[bytes]:
        """All paths of a file, relative to the mount; none for one that is gone. Raises OSError."""
        name = str(fid).encode()
        path = ctypes.create_string_buffer(_LONGEST_PATH)
        found: list[bytes] = []
        link = 0
        while link < _MOST_LINKS:
            record, next_link = c_longlong(-1), c_int(link)
            try:
                _done(
                    self._calls.llapi_fid2path(
                        self._mount, name, path, _LONGEST_PATH, byref(record), byref(next_link)
                    )
                )
            except FileNotFoundError:
                return found
            found.append(path.value.strip(b"/"))
            if next_link.value == link:
                return found
            link = next_link.value
        raise OSError(errno.EMLINK, f"the names of {fid} do not end")


def _size(record: c_void_p) -> int:
    return size_of(ctypes.string_at(record.value or 0, HEAD_BYTES))


def _done(code: int) -> int:
    if code < 0:
        raise OSError(-code, os.strerror(-code))
    return code
