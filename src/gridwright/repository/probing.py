"""Finds out, before anything is written, whether a store does what a repository relies on.

A store that ignores a condition says success, and has lost what it was to protect: only a trial tells.
Objects are tried below a key of Gridwright's own, and deleted again. What was found is kept with what is
known of the repository, for a week, and while the store says the same of itself.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from gridwright.errors import ExitStatus, GridwrightError, Problem
from gridwright.repository.keys import MANIFEST, Keys
from gridwright.repository.references import ObjectReference
from gridwright.repository.settings import OpenRepository, RepositoryReport
from gridwright.repository.store import (
    ANY,
    REMEDIES,
    ObjectStore,
    SentSum,
    SmallContent,
    StoreAbilities,
    StoreError,
    StoreFault,
    WriteCondition,
    WrittenObject,
    crc64,
)

AGAIN_S = 7 * 86_400.0
"""How long what was found is believed: stores are updated."""
_FACT, _STEM = "store, tried with directories", "probe-"
_LEFT_S = 3600
"""How old objects of a trial are that a kill has left."""
_MOST_LEFT = 1000
_TRIALS = 3
LIKELY = StoreAbilities(copies_if_none_there=True, ends_parts_if_none_there=True, makes_anew=True)
"""What a dry run takes a store for that was not tried yet: S3."""
_REQUESTS = 60
"""Of one trial, about (50 of versitygw, 66 of SeaweedFS); as many as the last one took are kept."""
_NONE_THERE = WriteCondition(none_there=True)
_OTHER = WriteCondition(etag="0" * 32)
_METADATA = {"file-owner": "1000"}
_NAMES = ("+ %2B&<", "B", "a-b", "a/b", "\uff41", "\U0001f600")
"""In the order of UTF-8, which is neither that of UTF-16, nor that of letters, nor that of directories."""


@dataclass(frozen=True, slots=True)
class StoreLacks:
    """What a store does not do. Without what is `required`, exports lose data."""

    required: list[str]
    optional: list[str]


def require_store(opened: OpenRepository, report: RepositoryReport) -> None:
    """Find out, or know, that exports are safe with this store; notes name what it lacks otherwise.

    Raises GridwrightError with all that is required and lacks, and StoreError where nothing can be found out.
    """
    store, known = opened.store, opened.known
    if not store.software:
        # Any answer says what it is: another one may have come in its place.
        with suppress(StoreError):
            store.head(opened.keys.own(MANIFEST)).result()
    kept = _stored_abilities(known.fact(_FACT))
    if kept is not None and kept.is_fresh(store):
        _take(opened, kept.abilities)
        return
    software, before = store.software, dict(store.requests.by_kind)
    lacks = probe(store, opened.keys)
    asked = sum(store.requests.by_kind.values()) - sum(before.values())
    store.requests.by_kind = {**before, "probe": before.get("probe", 0) + asked}
    if lacks.required:
        raise refusal(lacks, opened.settings.bucket_url)
    _take(opened, store.abilities)
    report.notes += [f"this store {each}" for each in lacks.optional]
    abilities = asdict(store.abilities)
    known.set_fact(_FACT, json.dumps([store.place, store.bucket, software, abilities, time.time(), asked]))


def plan_trial(opened: OpenRepository, report: RepositoryReport) -> None:
    """Count what `require_store` would ask in a run, and say what a dry run cannot know without it."""
    kept, requests = _stored_abilities(opened.known.fact(_FACT)), opened.store.requests
    requests.add("head")
    if kept is None or not kept.is_fresh(opened.store):
        requests.add("probe", _REQUESTS if kept is None else kept.requests)
    if kept is None:
        report.notes.append(
            f"this store was not tried yet: the run tries it before, in some {_REQUESTS} requests; where it "
            "copies nothing under a condition, renamed files are sent, and where it keeps no objects of "
            "directories, these are in the manifest alone"
        )


def refusal(lacks: StoreLacks, bucket_url: str) -> GridwrightError:
    """The error of a store without what is required."""
    return GridwrightError(
        *(
            Problem(what=f"this store {each}", where=bucket_url, remedy=REMEDIES[StoreFault.UNSUPPORTED])
            for each in lacks.required
        ),
        status=ExitStatus.ENVIRONMENT,
    )


def recall_store(opened: OpenRepository) -> bool:
    """Take the store for what it was when it was last tried, if it was, without asking it anything."""
    kept = _stored_abilities(opened.known.fact(_FACT))
    if kept is None or (kept.place, kept.bucket) != (opened.store.place, opened.store.bucket):
        return False
    _take(opened, kept.abilities)
    return True


def _take(opened: OpenRepository, abilities: StoreAbilities) -> None:
    opened.store.abilities = abilities
    opened.keys.takes_backslashes = abilities.keeps_backslashes


class _StoredAbilities(NamedTuple):
    """What was found of a store, and when."""

    place: str
    bucket: str
    software: str
    abilities: StoreAbilities
    moment: float
    requests: int

    def is_fresh(self, store: ObjectStore) -> bool:
        is_of = (self.place, self.bucket, self.software) == (store.place, store.bucket, store.software)
        return is_of and 0 <= time.time() - self.moment < AGAIN_S


def _stored_abilities(text: str | None) -> _StoredAbilities | None:
    try:
        place, bucket, software, said, moment, requests = json.loads(text or "null")
        abilities = StoreAbilities(**{**said, "sent_sum": SentSum(said["sent_sum"])})
        return _StoredAbilities(place, bucket, software, abilities, float(moment), int(requests))
    except (TypeError, ValueError, KeyError):
        return None


def probe(store: ObjectStore, keys: Keys) -> StoreLacks:
    """Try a store. Raises StoreError where it cannot be reached, or forbids what exports do.

    What seems to lack is tried again: one answer that was lost or damaged on its way is no lack of a store.
    """
    lacks = _tried(store, keys)
    for _ in range(_TRIALS - 1):
        if not lacks.required:
            break
        again = _tried(store, keys)
        lacks = again if not again.required else lacks
    _remove_left(store, keys.own(_STEM))
    return lacks


def _tried(store: ObjectStore, keys: Keys) -> StoreLacks:
    lacks = StoreLacks([], [])
    store.abilities = StoreAbilities()
    trial = _Trial(store, keys.own(f"{_STEM}{secrets.token_hex(8)}/"), lacks)
    try:
        trial.run()
    except BaseException:
        with suppress(StoreError):
            trial.remove()
        raise
    trial.remove()
    return lacks


def _remove_left(store: ObjectStore, start: str) -> None:
    """Delete what trials that were killed have left."""
    oldest_ns = time.time_ns() - _LEFT_S * 10**9
    with suppress(StoreError):
        for place, entry in enumerate(store.list(start)):
            if place == _MOST_LEFT:
                return
            if entry.last_modified_ns < oldest_ns:
                store.delete(entry.key)


class _Trial:
    def __init__(self, store: ObjectStore, place: str, lacks: StoreLacks) -> None:
        self._store = store
        self._place = place
        self._lacks = lacks
        self._keys: list[str] = []

    def run(self) -> None:
        content = b"Gridwright tries this store, and deletes this object."
        written = self._first(content)
        self._try_head(written, content)
        self._try_conditions(written)
        self._try_parts(content)
        if not self._lacks.required:
            self._try_copies()
            self._try_deletions()
        self._try_listing()
        if not self._lacks.required:
            self._try_backslash()

    def remove(self) -> None:
        """Delete all objects of the trial. Raises StoreError."""
        for key in self._keys:
            self._store.delete(key)

    def _key(self, name: str) -> str:
        key = self._place + name
        if key not in self._keys:
            self._keys.append(key)
        return key

    def _write(
        self, name: str, content: bytes, condition: WriteCondition = ANY, *, in_parts: bool = False
    ) -> WrittenObject:
        sent = self._store.send(
            self._key(name), SmallContent(content), _METADATA, condition, in_parts=in_parts
        )
        return sent.result()

    def _set(self, **found: Any) -> None:  # noqa: ANN401 - abilities
        self._store.abilities = replace(self._store.abilities, **found)

    def _first(self, content: bytes) -> WrittenObject:
        """Write an object, with the checksum that the store wants, or has only where it is sent."""
        refused: StoreError | None = None
        try:
            written = self._write("object", content)
            if written.crc64 is not None:
                return written
            self._set(says_crc64=False)
        except StoreError as error:
            # A bucket that locks objects takes none without a checksum (Amazon S3 API Reference, PutObject).
            if error.fault is not StoreFault.REFUSED:
                raise
            refused = error
        if self._checks_crc64(content):
            self._set(sent_sum=SentSum.CRC64)
        elif refused is not None:
            self._set(sent_sum=SentSum.MD5)
        else:
            return written
        try:
            written = self._write("object", content)
        except StoreError as error:
            raise refused or error from error
        self._set(says_crc64=written.crc64 is not None)
        return written

    def _checks_crc64(self, content: bytes) -> bool:
        """Whether a CRC-64/NVME that is sent is kept, in one piece and in parts, and a wrong one refused."""
        crc = f"{crc64(content):016x}"
        self._set(sent_sum=SentSum.CRC64)
        try:
            for in_parts in (False, True):
                if self._write("sum", content, in_parts=in_parts).crc64 != crc:
                    return False
            self._set(sent_sum=SentSum.WRONG)
            self._write("sum", content)
        except StoreError as error:
            is_wrong = self._store.abilities.sent_sum is SentSum.WRONG
            return is_wrong and error.fault in (StoreFault.DAMAGED, StoreFault.REFUSED)
        finally:
            self._set(sent_sum=SentSum.NONE)
        return False

    def _try_head(self, written: WrittenObject, content: bytes) -> None:
        head = self._store.head(self._key("object")).result()
        required, optional = self._lacks.required, self._lacks.optional
        if (head.entry.etag, head.entry.size) != (written.etag, len(content)):
            required.append("says another ETag or size of an object than when it took it")
        if any(head.metadata.get(name) != value for name, value in _METADATA.items()):
            required.append("does not keep metadata of objects: owners and times of files would be lost")
        crc = f"{crc64(content):016x}"
        if any(found not in (None, crc) for found in (written.crc64, head.crc64)):
            required.append("says a CRC-64/NVME of an object that it has not")
        md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
        if written.crc64 is None and head.crc64 is None and written.etag != md5:
            optional.append(
                "has no checksum that tells what an object is (CRC-64/NVME, or an ETag that is an MD5): "
                "verify reads each object"
            )
        try:
            self._store.head(self._place + "none").result()
        except StoreError as error:
            if error.fault is not StoreFault.NOT_THERE:
                raise

    def _try_conditions(self, written: WrittenObject) -> None:
        self._must_hold("object", _NONE_THERE, "If-None-Match: * (nothing is overwritten that is there)")
        self._must_hold("object", _OTHER, "If-Match (nothing is overwritten that is not known)")
        known = WriteCondition(etag=written.etag)
        self._must_write("object", b"again", known, "If-Match with the ETag that it gave itself")
        self._must_write("new", b"new", _NONE_THERE, "If-None-Match: * where no object is")

    def _must_hold(self, name: str, condition: WriteCondition, what: str) -> None:
        """Write under a condition that does not hold."""
        try:
            self._write(name, b"must not be written", condition)
        except StoreError as error:
            if error.fault is StoreFault.UNSUPPORTED:
                self._lacks.required.append(f"does not know {what}: {error.problems[0].what}")
            elif error.fault not in (StoreFault.CHANGED, StoreFault.NOT_THERE):
                raise
        else:
            self._lacks.required.append(f"ignores the condition {what}")

    def _must_write(
        self, name: str, content: bytes, condition: WriteCondition, what: str, *, in_parts: bool = False
    ) -> None:
        """Write under a condition that holds."""
        try:
            self._write(name, content, condition, in_parts=in_parts)
        except StoreError as error:
            if error.fault not in (StoreFault.UNSUPPORTED, StoreFault.CHANGED, StoreFault.NOT_THERE):
                raise
            if error.fault is not StoreFault.UNSUPPORTED and self._is_written(name, content):
                # An answer was lost on its way, and its second try found the object of the first one.
                return
            # The ETag is another one where a condition before was ignored: that is named already.
            if not self._lacks.required:
                self._lacks.required.append(f"refuses {what}: {error.problems[0].what}")

    def _is_written(self, name: str, content: bytes) -> bool:
        try:
            return self._store.get(self._key(name)) == content
        except StoreError as error:
            if error.fault is not StoreFault.NOT_THERE:
                raise
            return False

    def _try_parts(self, content: bytes) -> None:
        required = len(self._lacks.required)
        self._must_write("parts", content, ANY, "an upload in parts (files over 8 MiB)", in_parts=True)
        if len(self._lacks.required) > required:
            return
        ignored = []
        for condition, what in ((_NONE_THERE, "If-None-Match"), (_OTHER, "If-Match")):
            try:
                self._store.send(
                    self._key("parts"), SmallContent(content), {}, condition, in_parts=True
                ).result()
            except StoreError as error:
                if error.fault not in (StoreFault.CHANGED, StoreFault.NOT_THERE, StoreFault.UNSUPPORTED):
                    raise
            else:
                ignored.append(what)
        self._set(ends_parts_if_none_there="If-None-Match" not in ignored)
        if ignored:
            self._lacks.optional.append(
                f"ignores {' and '.join(ignored)} when an upload in parts is completed: a large object that "
                "somebody else writes in that very moment would be overwritten"
            )

    def _try_copies(self) -> None:
        """Copy over another object, which must not be, and to a new key and onto itself, which must."""
        self._set(copies_if_none_there=True)
        try:
            self._copy("new")
        except StoreError as error:
            can = error.fault is StoreFault.CHANGED
            if can:
                with suppress(StoreError):
                    self._copy("copy")
                    self._copy("object")
                    return
        self._set(copies_if_none_there=False)

    def _copy(self, name: str) -> None:
        head = self._store.head(self._key("object")).result()
        source = ObjectReference("", head.entry.key, head.entry.etag, head.version_id, head.entry.size)
        self._store.copy(source, self._key(name), _METADATA).result()

    def _try_deletions(self) -> None:
        key = self._key("new")
        etag = self._store.head(key).result().entry.etag
        try:
            self._store.delete(key, "0" * 32)
            is_heeded = False
        except StoreError as error:
            if error.fault is not StoreFault.CHANGED:
                raise
            is_heeded = True
            self._store.delete(key, etag)
        if not is_heeded:
            self._lacks.optional.append(
                "ignores If-Match when an object is deleted: --deletions deletes what somebody else writes "
                "in that very moment"
            )
        self._try_anew()

    def _try_anew(self) -> None:
        """Make an object where one was deleted."""
        self._set(makes_anew=True)
        try:
            self._write("new", b"", _NONE_THERE)
        except StoreError as error:
            if error.fault not in (StoreFault.CHANGED, StoreFault.NOT_THERE):
                raise
            self._set(makes_anew=False)
            what = "If-None-Match: * where an object was deleted (its delete marker is in the way)"
            self._must_write("new", b"", _NONE_THERE, what)
            self._lacks.optional.append(f"refuses {what}: objects are made anew over the last version")

    def _try_listing(self) -> None:
        for name in _NAMES:
            self._write(f"list/{name}", b"")
        start = self._place + "list/"
        with suppress(StoreError):
            self._store.head(start + "a/").result()
            self._set(makes_directories=True)
        try:
            found = [each.key.removeprefix(start) for each in self._store.list(start, page=2)]
        except StoreError as error:
            if error.fault is not StoreFault.UNSUPPORTED:
                raise
            self._lacks.required.append(f"cannot be listed: {error.problems[0].what}")
            return
        self._judge_listing(found)

    def _try_backslash(self) -> None:
        self._write("other/a\\b", b"")
        found = [each.key for each in self._store.list(self._place + "other/")]
        if found != [self._place + "other/a\\b"]:
            self._set(keeps_backslashes=False)
            self._lacks.optional.append(
                "takes a backslash in a key for a slash, which is another file: names with one are refused"
            )

    def _judge_listing(self, found: Sequence[str]) -> None:
        if sorted(found) != list(_NAMES):
            wrong = sorted(set(found) ^ set(_NAMES)) or sorted(found)
            names = ", ".join(map(ascii, wrong[:4]))
            self._lacks.required.append(f"lists other keys than were written: {names}")
        elif found != list(_NAMES):
            self._lacks.optional.append(
                "lists keys in another order than S3 (the bytes of their UTF-8): imports sort them"
            )
