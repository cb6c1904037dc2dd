"""Serving a repository on a Lustre of one's own, as one of its agents."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from gridwright.errors import environment_error
from gridwright.repository.below import relative_directory
from gridwright.repository.copytool.agent import THREADS, CopytoolAgent
from gridwright.repository.copytool.carrying import Carrier
from gridwright.repository.copytool.liblustreapi import CopytoolHandle, LustreLibrary
from gridwright.repository.copytool.process import descriptor_of_orders_to_stop, log, tell_systemd
from gridwright.repository.copytool.serving_lock import give_lock_back, remove_left_behind, take_lock
from gridwright.repository.keys import Keys, bucket_of, prefix_of, shown
from gridwright.repository.probing import probe, refusal
from gridwright.repository.store import ObjectStore, StoreError

PATIENCE_S = 60.0
"""How long a reader waits while nothing comes from the store."""


@dataclass(frozen=True, slots=True)
class CopytoolService:
    """What an agent serves, and how."""

    directory: Path
    mount: Path
    """Where the Lustre of the directory is mounted."""
    bucket_url: str
    archive_id: int
    patience_s: float = PATIENCE_S
    endpoint_url: str | None = None
    removes: bool = False
    """Whether objects are deleted when Lustre asks for it."""
    threads: int = THREADS


def serve_copytool(service: CopytoolService) -> None:
    """Carry out what the coordinator asks for, until SIGTERM or SIGINT.

    Raises GridwrightError: no liblustreapi, no Lustre, HSM off, or another agent of this node serves it.
    """
    library = LustreLibrary()
    stop = descriptor_of_orders_to_stop(signal.SIGTERM, signal.SIGINT)
    try:
        relative = relative_directory(service.directory, service.mount)
    except ValueError:
        raise environment_error(
            f"{shown(str(service.directory))} does not lie below it", where=str(service.mount)
        ) from None
    lock = take_lock(str(service.directory))
    remove_left_behind()
    try:
        stores = BucketStores(service.endpoint_url)
        trial = StoreTrial(stores(bucket_of(service.bucket_url)), service.bucket_url)
        trial.begin()
        handle = CopytoolHandle(library, service.mount, service.archive_id)
        try:
            carrier = Carrier(
                handle, stores, relative, service.bucket_url, service.patience_s, service.removes,
                threading.Event(), trial.again,
            )  # fmt: skip
            agent = CopytoolAgent(carrier, log, service.threads)
            log(f"{shown(str(service.directory))}: an agent of HSM archive {service.archive_id}; serving")
            tell_systemd("READY=1")
            agent.run(stop)
            tell_systemd("STOPPING=1")
        finally:
            handle.close()
    finally:
        give_lock_back(str(service.directory), lock)


class StoreTrial:
    """Whether a store does what archiving relies on. Any thread may ask."""

    def __init__(self, store: ObjectStore, bucket_url: str) -> None:
        self._store = store
        self._bucket_url = bucket_url
        self._is_done = False
        self._one = ThreadPoolExecutor(1)

    def begin(self) -> None:
        """Try it at the start. Raises GridwrightError where archiving would lose what others write.

        A store that is away may come back, and one that forbids to write still gives contents: both are
        logged, and it is tried again before anything is archived.
        """
        try:
            self._try()
        except StoreError as error:
            log(f"the store was not tried, and will be before the first archive: {error.problems[0].what}")

    def again(self) -> Future[None]:
        """Try a store that was not tried yet, in the background: one trial at a time."""
        return self._one.submit(self._try)

    def _try(self) -> None:
        if self._is_done:
            return
        lacks = probe(self._store, Keys(prefix_of(self._bucket_url)))
        if lacks.required:
            raise refusal(lacks, self._bucket_url)
        for each in lacks.optional:
            log(f"this store {each}")
        self._is_done = True


class BucketStores:
    """Stores by bucket, connected to when the first file of one is asked for."""

    def __init__(self, endpoint_url: str | None) -> None:
        self._endpoint_url = endpoint_url
        self._lock = threading.Lock()
        self._stores: dict[str, ObjectStore] = {}

    def __call__(self, bucket: str) -> ObjectStore:
        """The store of a bucket. Raises GridwrightError."""
        from gridwright.repository.s3.connection import connect
        from gridwright.repository.s3.s3_store import S3Store

        with self._lock:
            if bucket not in self._stores:
                self._stores[bucket] = S3Store(connect(bucket, endpoint_url=self._endpoint_url))
            return self._stores[bucket]


def end_process() -> None:
    """End at once: threads that wait for the store or for Lustre must not keep the process."""
    os._exit(0)
