"""The coordinator of Lustre's HSM as a copytool sees it: hands out actions, and notes every breach of order.

A directory stands for the mount. A released file is one whose content is a hole, known here by its inode; a
reader is whoever waits for the end of a RESTORE. `.lustre/fid/FID` is another name of each file.
"""

from __future__ import annotations

import array
import errno
import os
import socket
import stat
import struct
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import changelog_double

NONE, ARCHIVE, RESTORE, REMOVE, CANCEL = 10, 20, 21, 22, 23
_ASKED = {"10": ARCHIVE, "11": RESTORE, "13": REMOVE}
"""HUA_ARCHIVE, HUA_RESTORE and HUA_REMOVE."""
_HERE = 9
"""HS_EXISTS and HS_ARCHIVED: what a file is once it was archived or restored."""
_RETRY = 2
_FSNAME = b"FS\0"
_SEQUENCE = 0x200000401
_SOURCE = Path(__file__).parent / "liblustreapi.c"


def build_library(directory: Path) -> Path:
    """Compile the double of the library under its real name; the directory for LD_LIBRARY_PATH."""
    return changelog_double.build_library(directory, _SOURCE)


@dataclass
class Action:
    """One action and what became of it; `error` is None until it has ended."""

    verb: int
    fid: str
    cookie: int
    archive_id: int
    agent: str | None = None
    begun_by: str | None = None
    """The handle of the copytool that has begun it."""
    is_cancelled: bool = False
    error: int | None = None
    was_retryable: bool = False
    progress: list[tuple[int, int]] = field(default_factory=list)
    agents: list[str] = field(default_factory=list)
    volatile: int = -1
    ended: threading.Event = field(default_factory=threading.Event)

    def wait(self, seconds: float = 30) -> int:
        """The errno that it ended with."""
        assert self.ended.wait(seconds), f"action {self.cookie:#x} of {self.fid} has not ended"
        assert self.error is not None
        return self.error


@dataclass
class Agent:
    """The copytool of a client, as the first that registered there said it."""

    archives: tuple[int, ...]
    handles: dict[str, socket.socket]
    """All that live; the first is sent what comes."""


@dataclass
class Coordinator:
    """The MDT's side, for one mount."""

    mount: Path
    address: Path
    retries: bool = True
    """Whether its policy lets actions be handed out again (no NRA)."""
    breaches: list[str] = field(default_factory=list)
    actions: dict[int, Action] = field(default_factory=dict)
    agents: dict[str, Agent] = field(default_factory=dict)
    """By client."""
    released: set[int] = field(default_factory=set)
    order: list[int] = field(default_factory=list)
    """Cookies as they were begun."""
    version: int = 1
    _fids: dict[int, str] = field(default_factory=dict)
    _clients: dict[str, str] = field(default_factory=dict)
    """Of each handle that ever was."""
    _marks: dict[int, int] = field(default_factory=dict)
    """Flags of files by inode, beside that of released ones."""
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _turn: int = 0
    _last: int = 0

    @property
    def environment(self) -> dict[str, str]:
        """What the library finds it by."""
        return {"HSM_DOUBLE": str(self.address)}

    def fid_of(self, path: Path) -> str:
        """The FID of a file, which gets one if it has none."""
        with self._lock:
            inode = path.stat().st_ino
            # A file that is gone may have had this inode.
            known = self._by_fid(self._fids.get(inode, "none"))
            if not known.exists() or known.stat().st_ino != inode:
                self._fids.pop(inode, None)
                self._last += 1
                self._fids[inode] = f"{_SEQUENCE:#x}:{self._last:#x}:0x0"
                # By a descriptor of any directory, a file of /proc/self/fd is linked, and not its name there.
                root = os.open(self.mount, os.O_PATH)
                os.link(path, self._by_fid(self._fids[inode]), src_dir_fd=root)
                os.close(root)
            return self._fids[inode]

    def is_released(self, path: Path) -> bool:
        """Whether a reader of the file would wait."""
        return path.stat().st_ino in self.released

    def request(self, verb: int, *paths: Path, archive_id: int = 1) -> list[Action]:
        """What `lfs hsm_restore` and its like do for files: one list for all of them."""
        with self._lock:
            made = [
                Action(verb, self.fid_of(path), 0x6A000000 + len(self.actions) + place, archive_id)
                for place, path in enumerate(paths)
            ]
            self.actions.update({each.cookie: each for each in made})
            self._hand_out(made)
        return made

    def cancel(self, action: Action) -> None:
        """Withdraw an action: the agent is told, and progress is refused from now on."""
        with self._lock:
            action.is_cancelled = True
            cancelled = Action(CANCEL, action.fid, action.cookie, action.archive_id)
            self._send(action.agent or "", [cancelled], action.archive_id)

    def _hand_out(self, actions: list[Action]) -> None:
        for archive_id in {each.archive_id for each in actions}:
            some = [each for each in actions if each.archive_id == archive_id]
            while able := [name for name, each in self.agents.items() if {0, archive_id} & {*each.archives}]:
                client = able[self._turn % len(able)]
                self._turn += 1
                if self._send(client, some, archive_id):
                    for each in some:
                        each.agent, each.begun_by = client, None
                        each.agents.append(client)
                    break

    def _send(self, client: str, actions: list[Action], archive_id: int) -> bool:
        """Send to a client; one without a copytool that lives is known no more."""
        for handle in self.agents[client].handles.values():
            handle.send(self._list(actions, archive_id))
            return True
        del self.agents[client]
        return False

    def _list(self, actions: list[Action], archive_id: int) -> bytes:
        data = struct.pack("=IIQQII", self.version, len(actions), 7, 0, archive_id, 0) + _FSNAME
        for each in actions:
            data += bytes(-len(data) % 8)
            fid = struct.pack("=QII", *(int(part, 16) for part in each.fid.split(":")))
            more = b"data" if each.cookie % 2 else b""
            data += struct.pack("=II", 72 + len(more), each.verb) + fid * 2
            data += struct.pack("=QQQQ", 0, 2**64 - 1, each.cookie, 0) + more
        return data

    def _serve(self, end: socket.socket) -> None:
        agent: str | None = None
        with end:
            while True:
                try:
                    data, rights, *_ = end.recvmsg(8192, 100)
                except OSError:
                    data = b""
                if not data:
                    break
                given = array.array("i", rights[0][2]).tolist() if rights else []
                verb, *words = data.decode().split(" ")
                with self._lock:
                    if verb == "register":
                        code, agent = self._register(end, *words)
                        answer, descriptor = f"{code} {agent}", None
                    else:
                        code, rest, descriptor = getattr(self, f"_{verb}")(*words, given=given)
                        answer = f"{code} {rest}"
                    with suppress(OSError):
                        fds = [descriptor] if descriptor is not None else []
                        socket.send_fds(end, [answer.encode()], fds)
                    if verb == "register" and code == 0:
                        waiting = [a for a in self.actions.values() if a.agent is None and a.error is None]
                        self._hand_out(waiting)
                for each in given:
                    os.close(each)
            if agent is not None:
                self._gone(agent)

    def _register(
        self, end: socket.socket, client: str, mount: str, flags: str, *archives: str
    ) -> tuple[int, str]:
        if Path(mount) != self.mount:
            return -errno.ENOTTY, ""
        name = f"handle-{len(self._clients)}"
        self._clients[name] = client
        # No error for the second one of a client, whose archives are not known: Lustre 2.17.
        made = Agent(tuple(map(int, archives)), {})
        self.agents.setdefault(client, made).handles[name] = end
        return 0, name

    def _unregister(self, name: str, *, given: list[int]) -> tuple[int, str, None]:
        agent = self.agents.pop(self._clients[name], None)
        for other, handle in agent.handles.items() if agent else ():
            if other != name:
                handle.send(b"?")
        return 0, "", None

    def _gone(self, name: str) -> None:
        """A copytool was killed: what it had stays its client's."""
        with self._lock:
            if agent := self.agents.get(self._clients[name]):
                agent.handles.pop(name, None)

    def _own(self, name: str, cookie: str) -> Action | None:
        action = self.actions.get(int(cookie))
        if action is None or action.agent != self._clients.get(name) or action.error is not None:
            self._breach(f"{name} speaks of action {int(cookie):#x}, which it has not")
            return None
        return action

    def _begin(
        self, name: str, cookie: str, verb: str, fid: str, is_error: str, *, given: list[int]
    ) -> tuple[int, str, int | None]:
        action = self._own(name, cookie)
        if action is None:
            return -errno.ENOENT, "", None
        if (action.verb, action.fid) != (int(verb), fid) or (action.begun_by == name and not int(is_error)):
            return self._breach(f"begin of {action} as {verb} of {fid}"), "", None
        action.begun_by = name
        return (0, "", None) if int(is_error) else self._start(action)

    def _start(self, action: Action) -> tuple[int, str, int | None]:
        self.order.append(action.cookie)
        if action.is_cancelled:
            action.begun_by = None
            return -errno.ECANCELED, "", None
        if action.verb == RESTORE:
            if action.volatile >= 0:
                os.close(action.volatile)
            action.volatile = os.open(self.mount, os.O_TMPFILE | os.O_RDWR, 0o600)
            return 0, "", action.volatile
        if action.verb == ARCHIVE:
            file = os.open(self._by_fid(action.fid), os.O_RDONLY)
            action.volatile = file
            return 0, "", file
        return 0, "", None

    def _by_fid(self, fid: str) -> Path:
        return self.mount / ".lustre" / "fid" / fid

    def _progress(
        self, fid: str, cookie: str, offset: str, length: str, flags: str, error: str, *, given: list[int]
    ) -> tuple[int, str, None]:
        """Whoever tells it, and of the file alone: after another FID no other copytool could go on."""
        action = self.actions.get(int(cookie))
        if action is None or action.agent is None or action.error is not None:
            return -errno.ENOENT, "", None
        if action.fid != fid or (flags, error) not in (("0", "0"), ("3", str(errno.EINTR))):
            return self._breach(f"progress of {fid}, flags {flags}, error {error}, of {action}"), "", None
        if int(flags):
            action.was_retryable, action.agent, action.begun_by = True, None, None
            if self.retries:
                self._hand_out([action])
            else:
                action.error = int(error)
                action.ended.set()
            return 0, "", None
        if action.is_cancelled:
            return -errno.ECANCELED, "", None
        action.progress.append((int(offset), int(length)))
        return 0, "", None

    def _ask(self, verb: str, archive: str, fid: str, *, given: list[int]) -> tuple[int, str, None]:
        action = Action(_ASKED[verb], fid, 0x6A000000 + len(self.actions), int(archive))
        self.actions[action.cookie] = action
        self._hand_out([action])
        return 0, "", None

    def _mark(self, flags: str, no_flags: str, *, given: list[int]) -> tuple[int, str, None]:
        inode = os.fstat(given[0]).st_ino
        self._marks[inode] = (self._marks.get(inode, 0) | int(flags)) & ~int(no_flags)
        return 0, "", None

    def _marked(self, *, given: list[int]) -> tuple[int, str, None]:
        inode = os.fstat(given[0]).st_ino
        return 0, str(self._marks.get(inode, 0) | (13 if inode in self.released else 0)), None

    def _fd2fid(self, *, given: list[int]) -> tuple[int, str, None]:
        return 0, self.fid_of(Path(f"/proc/self/fd/{given[0]}")), None

    def _end(
        self, name: str, cookie: str, offset: str, length: str, flags: str, error: str, *, given: list[int]
    ) -> tuple[int, str, None]:
        action = self._own(name, cookie)
        if action is None:
            return -errno.ENOENT, "", None
        if action.begun_by != name or int(flags) & ~_RETRY or int(offset):
            return self._breach(f"end at {offset}, flags {flags}, of {action}"), "", None
        if int(flags) and action.verb == RESTORE:
            return self._breach(f"given back with a file of its own: {action}"), "", None
        if int(error) == 0 and self._by_fid(action.fid).exists():
            self._marks[self._by_fid(action.fid).stat().st_ino] = 0 if action.verb == REMOVE else _HERE
        if int(error) == 0 and action.verb == RESTORE:
            path = self._by_fid(action.fid)
            size = path.stat().st_size
            if os.fstat(action.volatile).st_size != size or int(length) != size:
                return self._breach(f"{length} bytes restored of {size}"), "", None
            self._swap(action.volatile, path)
        action.was_retryable = bool(int(flags) & _RETRY)
        if int(error) and action.was_retryable and self.retries and not action.is_cancelled:
            action.agent = action.begun_by = None
            self._hand_out([action])
            return 0, "", None
        action.error = int(error)
        if action.volatile >= 0:
            os.close(action.volatile)
        action.ended.set()
        return 0, "", None

    def _swap(self, volatile: int, path: Path) -> None:
        """The file keeps its inode, attributes and times, and gets the content."""
        status = path.stat()
        with path.open("r+b") as file:
            offset = 0
            while data := os.pread(volatile, 1 << 20, offset):
                file.write(data)
                offset += len(data)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        self.released.discard(status.st_ino)

    def _import(
        self, archive: str, mode: str, uid: str, gid: str, size: str, *rest: str, given: list[int]
    ) -> tuple[int, str, None]:
        # Of times a metadata server keeps whole seconds.
        atime, _, mtime, *_ = map(int, rest[:4])
        (file,) = given
        status = os.fstat(file)
        if status.st_size or not stat.S_ISREG(int(mode)) or not 0 < int(archive) < 1 << 31:
            return self._breach(f"import of {size} bytes with mode {mode} into archive {archive}"), "", None
        os.ftruncate(file, int(size))
        os.fchown(file, int(uid), int(gid))
        os.fchmod(file, int(mode) & 0o7777)
        os.utime(file, (atime, mtime))
        self.released.add(status.st_ino)
        return 0, self.fid_of(Path(f"/proc/self/fd/{file}").readlink()), None

    def _fid2path(self, fid: str, *, given: list[int]) -> tuple[int, str, None]:
        found = next((inode for inode, each in self._fids.items() if each == fid), None)
        for path in self.mount.rglob("*"):
            if ".lustre" not in path.parts and path.lstat().st_ino == found:
                return 0, str(path.relative_to(self.mount)), None
        return -errno.ENOENT, "", None

    def _breach(self, what: str) -> int:
        self.breaches.append(what)
        return -errno.EINVAL


@contextmanager
def coordinator(mount: Path) -> Iterator[Coordinator]:
    """A coordinator for a directory, until the end of the block. No copytool may have broken its rules."""
    (mount / ".lustre" / "fid").mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="hsm-") as place:
        address = Path(place) / "socket"
        made = Coordinator(mount, address)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listening.bind(str(address))
        listening.listen(64)

        def accept() -> None:
            while True:
                try:
                    end, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=made._serve, args=(end,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield made
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            listening.close()
    assert made.breaches == []
