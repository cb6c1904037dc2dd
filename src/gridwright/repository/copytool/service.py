"""Serving the repositories of a Lustre of one's own, as one of its agents."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from gridwright.errors import environment_error
from gridwright.repository.below import relative_directory
from gridwright.repository.copytool.action_journal import ActionJournal
from gridwright.repository.copytool.agent import THREADS, CopytoolAgent
from gridwright.repository.copytool.carrying import Carrier
from gridwright.repository.copytool.liblustreapi import CopytoolHandle, LustreLibrary
from gridwright.repository.copytool.presence import ANSWER_S, EVERY_S, AgentPresence
from gridwright.repository.copytool.process import descriptor_of_orders_to_stop, log, tell_systemd
from gridwright.repository.copytool.serving_lock import ServingAgent, ServingLock, remove_left_behind
from gridwright.repository.keys import Keys, bucket_of, prefix_of, shown
from gridwright.repository.probing import probe, refusal
from gridwright.repository.store import ObjectStore, StoreError

PATIENCE_S = 60.0
"""How long a reader waits while nothing comes from the store."""
_SAY_S = 10.0
"""How often an agent writes down when it was last asked."""


@dataclass(frozen=True, slots=True)
class ServedRepository:
    """A repository that an agent carries, and its archive."""

    directory: Path
    bucket_url: str
    archive_id: int
    endpoint_url: str | None = None


@dataclass(frozen=True, slots=True)
class CopytoolService:
    """What an agent serves, and how."""

    mount: Path
    """Where the Lustre of all directories is mounted."""
    repositories: Sequence[ServedRepository]
    patience_s: float = PATIENCE_S
    removes: bool = False
    """Whether objects are deleted when Lustre asks for it."""
    threads: int = THREADS


def serve_copytool(service: CopytoolService) -> None:
    """Carry out what the coordinator asks for, until SIGTERM or SIGINT.

    Raises GridwrightError: no liblustreapi, no Lustre, HSM off, or another agent of this node serves it.
    """
    library = LustreLibrary()
    stop = descriptor_of_orders_to_stop(signal.SIGTERM, signal.SIGINT)
    lock = ServingLock(_client(library, service.mount), str(service.mount))
    remove_left_behind()
    try:
        stopping = threading.Event()
        prepared = [(each, *_prepared(each, service.mount)) for each in service.repositories]
        journal = ActionJournal(service.mount)
        handle = CopytoolHandle(library, service.mount, [each.archive_id for each in service.repositories])
        try:
            carriers = {
                each.archive_id: Carrier(
                    handle,
                    stores,
                    relative,
                    each.bucket_url,
                    service.patience_s,
                    service.removes,
                    stopping,
                    trial.again,
                )
                for each, relative, stores, trial in prepared
            }
            presence = AgentPresence(handle)
            agent = CopytoolAgent(handle, carriers, journal, presence, log, stopping, service.threads)
            asking = threading.Thread(target=_keep_asking, args=(service, agent, lock), daemon=True)
            asking.start()
            agent.run(stop)
            tell_systemd("STOPPING=1")
        finally:
            handle.unregister()
    finally:
        lock.give_back()


def _client(library: LustreLibrary, mount: Path) -> str:
    try:
        return library.client_of(mount)
    except OSError as error:
        raise environment_error(
            f"Lustre does not say who it is: {error.strerror}", where=str(mount)
        ) from None


def _prepared(repository: ServedRepository, mount: Path) -> tuple[bytes, BucketStores, StoreTrial]:
    """The directory below the mount, its stores, and their trial, which has begun. Raises GridwrightError."""
    try:
        relative = relative_directory(repository.directory, mount)
    except ValueError:
        raise environment_error(
            f"{shown(str(repository.directory))} does not lie below it", where=str(mount)
        ) from None
    stores = BucketStores(repository.endpoint_url)
    trial = StoreTrial(stores(bucket_of(repository.bucket_url)), repository.bucket_url)
    trial.begin()
    return relative, stores, trial


def _keep_asking(service: CopytoolService, agent: CopytoolAgent, lock: ServingLock) -> None:
    """See to it that the metadata servers ask this agent, and say what it serves; till it ends."""
    presence, since, is_ready = agent.presence, time.time(), False
    directories = {str(each.archive_id): str(each.directory) for each in service.repositories}
    while not agent.stopping.is_set():
        lock.say(ServingAgent(os.getpid(), str(service.mount), directories, since, presence.heard_at))
        if not is_ready or (agent.is_idle and time.time() - presence.heard_at >= EVERY_S):
            if why := presence.ask(agent.stopping, ANSWER_S):
                agent.give_up(
                    environment_error(
                        f"the metadata servers do not ask this agent: {why}",
                        where=shown(str(service.mount)),
                        remedy="another copytool may run on this client (the servers know one of each), or "
                        "mdt.*.hsm_control not be enabled; the unit starts the agent again by itself",
                    )
                )
                return
            if not is_ready and not agent.stopping.is_set():
                for archive_id, directory in directories.items():
                    log(f"{shown(directory)}: an agent of HSM archive {archive_id}; serving")
                tell_systemd("READY=1")
                is_ready = True
                continue
        agent.stopping.wait(_SAY_S)


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
