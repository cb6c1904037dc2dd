"""Serving the repositories of a Lustre of one's own, as one of its agents.

What an agent has as a process: orders to stop, its journal, and who started it.

The agent: takes actions from the coordinator, has them carried out, and ends every one of them.

An action that nobody ends has its reader wait until the coordinator gives it up, an hour by default. So an
agent goes on with those that the one before it on this node has not ended.

Which action is carried out next: restores first, since readers wait for them, and so many at a time.

Whether the metadata servers still ask this agent: it has them ask, of files that nobody else sees.

A copytool that registers where the servers know another one of this client is told of no error, and is sent
nothing (Lustre 2.17). Nor is one of archives that the one before it had not, if that was killed, until it has
left once. So the agent asks for the removal of an archived file without a name, and waits for it.
An agent on another node may be sent it, and ends it, too: then there is one.

Which actions an agent has and has not ended, so that the one after it goes on with them.

Lustre hands an action out once. One of an agent that was killed has its reader wait until the coordinator
gives it up (`active_request_timeout`), though whoever knows its cookie may still end it. So its whole item is
kept, on disk before anything is done of it, in a directory that is root's alone.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.errors import GridwrightError, environment_error
from gridwright.refusals import reason_of
from gridwright.repository.below import relative_directory
from gridwright.repository.copytool.carrying import ActionRefused, Carrier, Underway
from gridwright.repository.copytool.liblustreapi import (
    ARCHIVED,
    PING,
    ActionListError,
    CopytoolHandle,
    Fid,
    HsmAction,
    HsmVerb,
    LustreLibrary,
    parse_action,
)
from gridwright.repository.copytool.serving_lock import ServingAgent, ServingLock, remove_left_behind
from gridwright.repository.keys import Keys, bucket_of, prefix_of, shown
from gridwright.repository.probing import probe, refusal
from gridwright.repository.store import ObjectStore, StoreError
from gridwright.trusted import open_directory, open_file
from gridwright.units import counted

DIRECTORY = Path("/var/lib/gridwright/agents")
_FILE = "actions"
_MOST = 64 << 20
"""Bytes of the file that are read: about 300,000 actions."""
_LONG = 4 << 20
"""Bytes from which the file is written anew."""


class ActionJournal:
    """The actions of the agent of one mount. Any thread may write."""

    def __init__(self, mount: Path) -> None:
        """Open it. Raises GridwrightError where others could write it, and OSError."""
        name = hashlib.sha256(os.fsencode(os.path.realpath(mount))).hexdigest()[:24]
        self._directory = open_directory(DIRECTORY / name, make=0o700)
        self._file = open_file(self._directory, _FILE, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        self._lock = threading.Lock()
        self._open = {each.cookie: _line(each) for each in self._read()}

    def left(self) -> list[HsmAction]:
        """Those of the agent before, which did not end them."""
        with self._lock:
            return [_action(json.loads(each)) for each in self._open.values()]

    def note(self, actions: Sequence[HsmAction]) -> None:
        """Have actions on disk. Raises OSError."""
        lines = {each.cookie: _line(each) for each in actions}
        with self._lock:
            self._open.update(lines)
            os.write(self._file, b"".join(lines.values()))
            os.fdatasync(self._file)

    def done(self, cookie: int) -> None:
        """Forget one that has ended. Raises OSError."""
        with self._lock:
            if self._open.pop(cookie, None) is None:
                return
            if not self._open:
                os.ftruncate(self._file, 0)
                return
            # A power cut may lose it: Lustre says of an action that it is over.
            os.write(self._file, json.dumps([cookie]).encode() + b"\n")
            if os.fstat(self._file).st_size > _LONG:
                self._shorten()

    def close(self) -> None:
        """Close it."""
        os.close(self._file)
        os.close(self._directory)

    def _shorten(self) -> None:
        part = f"{_FILE}.part"
        with suppress(FileNotFoundError):
            os.unlink(part, dir_fd=self._directory)
        made = open_file(self._directory, part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND)
        os.write(made, b"".join(self._open.values()))
        os.fsync(made)
        os.rename(part, _FILE, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        os.close(self._file)
        self._file = made

    def _read(self) -> list[HsmAction]:
        found: dict[int, HsmAction] = {}
        for line in os.pread(self._file, _MOST, 0).splitlines():
            # Of the last line there may be a part alone.
            with suppress(ValueError, TypeError, ActionListError):
                values = json.loads(line)
                found.pop(values[0], None)
                if len(values) > 1:
                    action = _action(values)
                    found[action.cookie] = action
        return list(found.values())


def _line(action: HsmAction) -> bytes:
    return json.dumps([action.cookie, action.archive_id, action.item.hex()]).encode() + b"\n"


def _action(values: list[object]) -> HsmAction:
    """Raises ValueError, TypeError, ActionListError."""
    _, archive_id, item = values
    if not isinstance(archive_id, int) or not isinstance(item, str):
        raise TypeError("no action")
    return parse_action(bytes.fromhex(item), archive_id)


ANSWER_S = 30.0
"""What the servers have to answer in; idle ones of Lustre 2.17 take a second."""
EVERY_S = 300.0
"""How often an agent that is sent nothing asks."""
_LOOK_S = 0.5


@dataclass(slots=True)
class AgentPresence:
    """What is known of an agent's standing with the servers. `heard` may come from another thread."""

    handle: CopytoolHandle
    heard_at: float = 0.0
    """When the servers last sent something, in seconds since 1970; 0 for never."""
    _own: deque[Fid] = field(default_factory=lambda: deque(maxlen=100))
    """Of this agent's last pings, whose files may be gone."""
    _heard: threading.Event = field(default_factory=threading.Event)

    def heard(self) -> None:
        """Note that the servers have sent something, whatever it is."""
        self.heard_at = time.time()
        self._heard.set()

    def is_ping(self, action: HsmAction) -> bool:
        """Whether an action is of a file by which some agent looks whether it is asked."""
        if action.verb is not HsmVerb.REMOVE:
            return False
        if action.fid in self._own:
            return True
        try:
            return os.getxattr(self.handle.fid_path(action.fid), PING) == b"1"
        except OSError:
            return False

    def ask(self, stop: threading.Event, answer_s: float) -> str | None:
        """Have the servers send something for each archive; why nothing came, or None.

        For a thread of its own: it waits as long as a server that is away takes to come back.
        """
        for archive_id in self.handle.archive_ids:
            self._heard.clear()
            try:
                if not self._is_answered(archive_id, stop, answer_s):
                    return f"nothing came for archive {archive_id} within {answer_s:g} s"
            except OSError as error:
                return reason_of(error)
        return None

    def _is_answered(self, archive_id: int, stop: threading.Event, answer_s: float) -> bool:
        library = self.handle.library
        descriptor = library.open_ping(self.handle.mount, archive_id)
        try:
            self._own.append(library.fid_of(descriptor))
            library.request_removal(self.handle.mount, descriptor, archive_id)
            end = time.monotonic() + answer_s
            while not self._heard.wait(_LOOK_S) and not stop.is_set():
                # Another agent may have been asked, and then the file is archived no more.
                if not library.hsm_state(descriptor).flags & ARCHIVED:
                    return True
                if time.monotonic() > end:
                    return False
            return True
        finally:
            os.close(descriptor)


MOST_WAITING = 10_000
"""Actions other than restores that wait here; more are given back to the coordinator."""


@dataclass(slots=True)
class ActionWindow:
    """Actions that wait for a thread. A part of the threads is kept for restores."""

    most_others: int
    """Actions other than restores that are under way at a time; at least 1."""
    _restores: deque[HsmAction] = field(default_factory=deque)
    _others: deque[HsmAction] = field(default_factory=deque)
    _others_under_way: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _is_closed: bool = False

    def put(self, action: HsmAction) -> bool:
        """Have an action wait; False where too many do. A restore always may."""
        with self._changed:
            if action.verb is HsmVerb.RESTORE:
                self._restores.append(action)
            elif len(self._others) >= MOST_WAITING:
                return False
            else:
                self._others.append(action)
            self._changed.notify()
            return True

    def take(self) -> HsmAction | None:
        """The next one, as soon as there is one that may begin; None when closed."""
        with self._changed:
            while not self._is_closed:
                if self._restores:
                    return self._restores.popleft()
                if self._others and self._others_under_way < self.most_others:
                    self._others_under_way += 1
                    return self._others.popleft()
                self._changed.wait()
            return None

    def done(self, action: HsmAction) -> None:
        """One that was taken has ended."""
        if action.verb is not HsmVerb.RESTORE:
            with self._changed:
                self._others_under_way -= 1
                self._changed.notify()

    def withdraw(self, cookie: int) -> HsmAction | None:
        """Take one that still waits out again, for good."""
        with self._changed:
            for queue in (self._restores, self._others):
                for action in queue:
                    if action.cookie == cookie:
                        queue.remove(action)
                        return action
        return None

    def close(self) -> list[HsmAction]:
        """Give no more actions; those that waited."""
        with self._changed:
            self._is_closed = True
            left = [*self._restores, *self._others]
            self._restores.clear()
            self._others.clear()
            self._changed.notify_all()
        return left


THREADS = 16
"""Actions under way at a time; a quarter of them is kept for restores."""
_GIVEN_BACK = (HsmVerb.ARCHIVE, HsmVerb.RESTORE, HsmVerb.REMOVE)
_STOP_S = 0.6
"""What actions under way have to end in when the agent ends."""


@dataclass(slots=True)
class CopytoolAgent:
    """One copytool at work, with the carrier of each archive. `log` takes lines for systemd's journal."""

    handle: CopytoolHandle
    carriers: Mapping[int, Carrier]
    journal: ActionJournal
    presence: AgentPresence
    log: Callable[[str], None]
    stopping: threading.Event
    threads: int = THREADS
    _underway: dict[int, Underway] = field(default_factory=dict)
    _given_back: list[HsmAction] = field(default_factory=list)
    _trouble: GridwrightError | None = None
    _troubled: int = field(default_factory=lambda: os.eventfd(0, os.EFD_CLOEXEC))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _window: ActionWindow = field(init=False)

    def __post_init__(self) -> None:
        self._window = ActionWindow(max(1, self.threads - max(1, self.threads // 4)))

    def run(self, stop: int) -> None:
        """Work until the descriptor `stop` can be read.

        Raises GridwrightError where Lustre goes away, and what `give_up` was told.
        """
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(self.threads)]
        for thread in threads:
            thread.start()
        for action in self.journal.left():
            self._go_on_with(action)
        poll = select.poll()
        for descriptor in (stop, self._troubled, self.handle.descriptor):
            poll.register(descriptor, select.POLLIN)
        try:
            while stop not in (ready := dict(poll.poll())):
                if self._trouble is not None:
                    raise self._trouble
                if ready:
                    self._receive()
        finally:
            self._end(threads)

    def give_up(self, trouble: GridwrightError) -> None:
        """Have the agent end with an error."""
        self._trouble = trouble
        os.eventfd_write(self._troubled, 1)

    @property
    def is_idle(self) -> bool:
        """Whether no action is under way."""
        return not self._underway

    def _go_on_with(self, action: HsmAction) -> None:
        """Take an action that the agent before has not ended, unless it is over."""
        try:
            self.handle.progress(action)
        except OSError as error:
            if error.errno != errno.ECANCELED:
                self._forget(action)
                return
        self.log(f"{self._name(action)}: {action.verb.name.lower()} of action {action.cookie:#x} goes on")
        self._take(action)

    def _receive(self) -> None:
        try:
            actions = self.handle.receive()
        except ActionListError as error:
            self.log(f"a list of actions is not understood, and its readers wait for another agent: {error}")
            return
        except OSError as error:
            raise environment_error(
                f"Lustre sends nothing any more: {reason_of(error)}",
                where=str(self.handle.mount),
                remedy="mount it again, and end other copytools of this node; the unit starts this one again",
            ) from error
        wanted = []
        for action in actions:
            if self.presence.is_ping(action):
                self._refuse(action, 0)
            else:
                wanted.append(action)
        if actions:
            self.presence.heard()
        try:
            self.journal.note([each for each in wanted if each.verb in _GIVEN_BACK])
        except OSError as error:
            self.log(f"an agent after this one will not know of its actions: {reason_of(error)}")
        for action in wanted:
            self._take(action)

    def _take(self, action: HsmAction) -> None:
        if action.verb is HsmVerb.CANCEL:
            self._cancel(action.cookie)
        elif action.verb is HsmVerb.NONE:
            return
        elif action.archive_id not in self.carriers:
            self._say(action, f"nothing is known here of archive {action.archive_id}")
            self._refuse(action, errno.EINVAL)
        elif action.cookie in self._underway:
            self.log(f"{self._name(action)}: it is under way already")
        elif not self._window.put(action):
            self._refuse(action, errno.EBUSY, may_retry=True)

    def _cancel(self, cookie: int) -> None:
        waiting = self._window.withdraw(cookie)
        if waiting is not None:
            self._refuse(waiting, errno.ECANCELED)
            return
        with self._lock:
            if underway := self._underway.get(cookie):
                underway.wanted = False

    def _work(self) -> None:
        while (action := self._window.take()) is not None:
            try:
                self._carry_out(action)
            finally:
                self._window.done(action)

    def _carry_out(self, action: HsmAction) -> None:
        try:
            begun = self.handle.begin(action)
        except OSError as error:
            self.log(f"{self._name(action)}: Lustre does not let it begin: {reason_of(error)}")
            # The file may be gone, or the action have been cancelled.
            self._refuse(action, error.errno or errno.EIO)
            return
        underway = Underway(begun)
        with self._lock:
            self._underway[action.cookie] = underway
        size, number = 0, errno.EIO
        try:
            size = self._carry(underway)
            number = 0
        except ActionRefused as refused:
            number = refused.errno
            self._say(action, str(refused))
        except GridwrightError as error:
            self._say(action, error.problems[0].what)
        except OSError as error:
            number = error.errno or errno.EIO
            self._say(action, reason_of(error))
        except Exception as error:  # Whatever went wrong, the reader must not wait for ever.
            self._say(action, f"{type(error).__name__}: {error}")
        finally:
            with self._lock:
                del self._underway[action.cookie]
            self._finish(underway, size, number)

    def _carry(self, underway: Underway) -> int:
        action = underway.begun.action
        carrier = self.carriers[action.archive_id]
        if action.verb is HsmVerb.RESTORE:
            return carrier.restore(underway)
        if action.verb is HsmVerb.ARCHIVE:
            return carrier.archive(underway)
        return carrier.remove(underway)

    def _finish(self, underway: Underway, size: int, number: int) -> None:
        action = underway.begun.action
        if number == errno.EINTR and self.stopping.is_set():
            self._given_back.append(action)
            return
        try:
            underway.begun.end(size, number, may_retry=number == errno.EAGAIN)
            if number == 0 and action.verb is HsmVerb.RESTORE:
                self.carriers[action.archive_id].note_restored(underway)
        except (OSError, ActionRefused) as error:
            self._say(action, f"Lustre did not take its end: {error}")
        self._forget(action)

    def _refuse(self, action: HsmAction, number: int, *, may_retry: bool = False) -> None:
        """End an action that was not begun; with 0 there is nothing to do."""
        try:
            self.handle.begin(action, only_to_refuse=True).end(0, number, may_retry=may_retry)
        except OSError as error:
            self._say(action, f"Lustre did not take its end: {reason_of(error)}")
        self._forget(action)

    def _forget(self, action: HsmAction) -> None:
        with suppress(OSError):
            self.journal.done(action.cookie)

    def _say(self, action: HsmAction, why: str) -> None:
        what = action.verb.name.lower()
        self.log(f"{self._name(action)}: {what} of action {action.cookie:#x}: {why}")

    def _name(self, action: HsmAction) -> str:
        """A path of the file, or its FID where it has none any more."""
        with suppress(OSError):
            path = self.handle.path_of(action.fid)
            return shown(os.path.join(os.fsencode(self.handle.mount), path))  # noqa: PTH118 - bytes
        return f"[{action.fid}]"

    def _end(self, threads: list[threading.Thread]) -> None:
        """End all actions, those under way by their own threads; what is left of them is given back.

        Not before this agent is known no more: it would be handed them again.
        """
        self.stopping.set()
        self._given_back += self._window.close()
        end = time.monotonic() + _STOP_S
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        with self._lock:
            left = len(self._underway)
        if left:
            self.log(
                f"{counted(left, 'action')} did not end in time; the next agent of this node goes on there"
            )
        with suppress(OSError, ActionListError):
            self._given_back += [each for each in self.handle.receive() if each.verb in _GIVEN_BACK]
        self.handle.unregister()
        for action in self._given_back:
            try:
                self.handle.give_back(action)
            except OSError as error:
                self._say(action, f"Lustre did not take it back: {reason_of(error)}")
            self._forget(action)


def descriptor_of_orders_to_stop(*signals: signal.Signals) -> int:
    """A descriptor that can be read once one of these signals has come. For the main thread."""
    mine, its = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def stop(*_: object) -> None:
        with contextlib.suppress(OSError):
            os.write(its, b".")

    for each in signals:
        signal.signal(each, stop)
    return mine


def log(text: str) -> None:
    """One line of the journal."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def tell_systemd(text: str) -> None:
    """Tell systemd how this process is (sd_notify(3)); nothing where it does not listen."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
        to.connect(f"\0{address[1:]}" if address.startswith("@") else address)
        to.send(text.encode())


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
            asking = threading.Thread(target=_poll_servers, args=(service, agent, lock), daemon=True)
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
            f"Lustre does not say who it is: {reason_of(error)}", where=str(mount)
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


def _poll_servers(service: CopytoolService, agent: CopytoolAgent, lock: ServingLock) -> None:
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
