"""What a copytool, and a release, ask of liblustreapi, which comes with Lustre's client.

Prototypes: lustre/include/lustre/lustreapi.h of Lustre 2.10 to 2.17; meaning: the manual pages
llapi_hsm_copytool_register(3), llapi_hsm_action_begin(3) and llapi_hsm_state_get(3), and
lustre/utils/liblustreapi_hsm.c. Every
call gives 0 or a negative errno. ctypes lets other threads go on meanwhile.

Lists of actions: `struct hsm_action_list` and `struct hsm_action_item` of lustre/include/uapi/linux/lustre/
lustre_user.h, and `hai_first`, `hai_next` there (Lustre 2.10 to 2.17; HAL_VERSION is 1). Both are packed and
in the byte order of the machine; items begin at multiples of 8 bytes after the name of the file system.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Collection
from contextlib import suppress
from ctypes import (
    POINTER,
    byref,
    c_bool,
    c_char_p,
    c_int,
    c_long,
    c_longlong,
    c_uint64,
    c_ulonglong,
    c_void_p,
)
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from gridwright.errors import GridwrightError, environment_error

VERSION = 1
"""HAL_VERSION of lustre_user.h."""
_LIST = struct.Struct("=IIQQII")
_ITEM = struct.Struct("=II" + "QII" * 2 + "QQQQ")
_LONGEST_NAME = 8
"""LUSTRE_MAXFSNAME of lustre_user.h."""


class HsmVerb(IntEnum):
    """`enum hsm_copytool_action` of lustre_user.h."""

    NONE = 10
    ARCHIVE = 20
    RESTORE = 21
    REMOVE = 22
    CANCEL = 23


class ActionListError(ValueError):
    """A list is not what this release of Gridwright reads."""


@dataclass(frozen=True, slots=True)
class Fid:
    """`struct lu_fid`: a file of Lustre, whatever its names."""

    sequence: int
    object: int
    version: int = 0

    def __str__(self) -> str:
        return f"{self.sequence:#x}:{self.object:#x}:{self.version:#x}"


@dataclass(frozen=True, slots=True)
class HsmAction:
    """One action. `item` is its `hsm_action_item`, which the library takes back when it is begun.

    `cookie` is the coordinator's number of it; for CANCEL it is that of the action to be cancelled.
    """

    verb: HsmVerb
    fid: Fid
    cookie: int
    archive_id: int
    item: bytes


def parse_action_list(data: bytes) -> list[HsmAction]:
    """All actions of a list. Raises ActionListError where any part of it is not understood."""
    if len(data) < _LIST.size:
        raise ActionListError(f"it has {len(data)} bytes")
    version, count, _, _, archive_id, _ = _LIST.unpack_from(data)
    if version != VERSION:
        raise ActionListError(f"it has version {version}, and {VERSION} is known")
    end = data.find(b"\0", _LIST.size, _LIST.size + _LONGEST_NAME + 1)
    if end < 0:
        raise ActionListError("the name of its file system does not end")
    place = _aligned(end + 1)
    actions: list[HsmAction] = []
    for _ in range(count):
        if place + _ITEM.size > len(data):
            raise ActionListError(f"it says {count} actions, and ends after {len(actions)}")
        length = int.from_bytes(data[place : place + 4], sys.byteorder)
        actions.append(parse_action(data[place : place + length], archive_id))
        place = _aligned(place + length)
    return actions


def parse_action(item: bytes, archive_id: int) -> HsmAction:
    """An action of its `hsm_action_item`. Raises ActionListError.

    Content goes to the file that this agent makes. One that is handed out again may name that of the agent
    before, which is gone, and which the library would open (llapi_hsm_action_begin of Lustre 2.17).
    """
    if len(item) < _ITEM.size:
        raise ActionListError(f"an action has {len(item)} bytes")
    length, number, *fids, _offset, _extent, cookie, _group = _ITEM.unpack_from(item)
    if length != len(item):
        raise ActionListError(f"an action has {len(item)} bytes, and says {length}")
    try:
        verb = HsmVerb(number)
    except ValueError:
        raise ActionListError(f"{number} is no known action") from None
    item = item[:24] + item[8:24] + item[40:]
    return HsmAction(verb, Fid(*fids[:3]), cookie, archive_id, item)


def _aligned(place: int) -> int:
    return (place + 7) & ~7


NO_MESSAGES = 0
"""LLAPI_MSG_OFF: each call says by its errno what went wrong, and the library prints nothing beside it."""
_NAME = "liblustreapi.so.1"
_COMPLETED, RETRY = 1, 2
"""HP_FLAG_COMPLETED, and HP_FLAG_RETRY of lustre_user.h: the coordinator may hand the action out again, where
its policy says so."""
_O_NONBLOCK = os.O_NONBLOCK
_LONGEST_PATH = 4096
EXISTS, DIRTY, RELEASED, ARCHIVED, NEVER_RELEASE, LOST = 1, 2, 4, 8, 16, 64
"""HS_EXISTS, HS_RELEASED, HS_ARCHIVED, HS_NORELEASE and HS_LOST of lustre_user.h."""
_FLUSH_WRITES = 2
"""LL_DV_WR_FLUSH: all clients write what they have, and those that read may keep it."""
_RELEASE, _REMOVE = 12, 13
"""HUA_RELEASE and HUA_REMOVE."""
_PROGRESS = 1 << 30 | 24 << 16 | ord("f") << 8 | 216
"""LL_IOC_HSM_PROGRESS: _IOW('f', 216, struct hsm_user_request), whose size is not that of what is given."""
PING = "trusted.gridwright.ping"
"""An attribute of files by which agents look whether they are asked; root alone may give it."""
_WHOLE = 2**64 - 1
_LAYOUT = "lustre.lov"
_ANY_LAYOUT = struct.pack("<IIQQIHH", 0x0BD10BD0, 1, 0, 0, 0, 0, 0xFFFF)
"""`struct lov_user_md_v1` of stripes as the file system has them."""
_COMPOSITE = 0x0BD60BD0
"""LOV_USER_MAGIC_COMP_V1: a head of 32 bytes, and entries of 48 with the offset of their layout after 24."""
_ON_MDT, _PATTERN_RELEASED = 0x100, 0x80000000
"""LOV_PATTERN_MDT and LOV_PATTERN_F_RELEASED, of the word after the magic of a layout."""
_O_LOV_DELAY_CREATE = os.O_NOCTTY | os.O_ASYNC
"""Objects of the file are made when it has a layout (lustre_user.h)."""


class _Extent(ctypes.Structure):
    """`struct hsm_extent`: bytes from `offset`."""

    _pack_ = 1
    _fields_ = (("offset", c_uint64), ("length", c_uint64))


class _Fid(ctypes.Structure):
    _fields_ = (("sequence", c_uint64), ("object", ctypes.c_uint32), ("version", ctypes.c_uint32))


class _Progress(ctypes.Structure):
    """`struct hsm_progress`."""

    _pack_ = 1
    _fields_ = (
        ("fid", _Fid), ("cookie", c_uint64), ("extent", _Extent), ("flags", ctypes.c_uint16),
        ("error", ctypes.c_uint16), ("_padding", ctypes.c_uint32),
    )  # fmt: skip


class _Time(ctypes.Structure):
    _fields_ = (("seconds", c_long), ("nanoseconds", c_long))


class _Stat(ctypes.Structure):
    """`struct stat` of 64-bit Linux on x86: asm/stat.h of linux-libc-dev 6.1."""

    _fields_ = (
        ("device", c_uint64), ("inode", c_uint64), ("links", c_uint64), ("mode", ctypes.c_uint32),
        ("uid", ctypes.c_uint32), ("gid", ctypes.c_uint32), ("_pad", c_int), ("rdev", c_uint64),
        ("size", c_long), ("block_size", c_long), ("blocks", c_long), ("atime", _Time), ("mtime", _Time),
        ("ctime", _Time), ("_unused", c_long * 3),
    )  # fmt: skip


class _StatOfArm(ctypes.Structure):
    """`struct stat` of 64-bit Arm: asm-generic/stat.h of linux-libc-dev 6.1."""

    _fields_ = (
        ("device", c_uint64), ("inode", c_uint64), ("mode", ctypes.c_uint32), ("links", ctypes.c_uint32),
        ("uid", ctypes.c_uint32), ("gid", ctypes.c_uint32), ("rdev", c_uint64), ("_pad", c_uint64),
        ("size", c_long), ("block_size", c_int), ("_pad2", c_int), ("blocks", c_long), ("atime", _Time),
        ("mtime", _Time), ("ctime", _Time), ("_unused", c_int * 2),
    )  # fmt: skip


class _State(ctypes.Structure):
    """`struct hsm_user_state`."""

    _fields_ = (
        ("flags", ctypes.c_uint32), ("archive_id", ctypes.c_uint32), ("in_progress_state", ctypes.c_uint32),
        ("in_progress_action", ctypes.c_uint32), ("in_progress_location", _Extent),
        ("extended_info", c_char_p),
    )  # fmt: skip


class _Request(ctypes.Structure):
    """`struct hsm_user_request` of one file."""

    _pack_ = 1
    _fields_ = (
        ("action", ctypes.c_uint32), ("archive_id", ctypes.c_uint32), ("flags", c_uint64),
        ("count", ctypes.c_uint32), ("data_bytes", ctypes.c_uint32), ("fid", _Fid), ("extent", _Extent),
    )  # fmt: skip


_STATS = {"x86_64": _Stat, "aarch64": _StatOfArm}


@dataclass(frozen=True, slots=True)
class ReleasedFile:
    """What Lustre is told of a file that is released from its beginning. Bytes, and ns since 1970."""

    mode: int
    uid: int
    gid: int
    size: int
    atime_ns: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class HsmState:
    """What the metadata server knows of a file and its archive."""

    flags: int
    archive_id: int


class LustreLibrary:
    """The library, loaded once in a process."""

    def __init__(self) -> None:
        """Raises GridwrightError where it is not installed, or is not that of a known release."""
        try:
            self.calls = ctypes.CDLL(_NAME, use_errno=True)
        except OSError as error:
            raise environment_error(
                f"{_NAME} cannot be loaded: {error}",
                remedy="install Lustre's client: package lustre-client (Red Hat) or lustre-client-utils "
                "(Debian, Ubuntu)",
            ) from error
        self.stat = _STATS.get(os.uname().machine)
        try:
            self._declare()
        except AttributeError as error:
            raise environment_error(
                f"{_NAME} has not all that a copytool asks for: {error}",
                remedy="install the client of Lustre 2.10 or newer, built with HSM",
            ) from error

    def _declare(self) -> None:
        handle = POINTER(c_void_p)
        for name, arguments in {
            "llapi_hsm_copytool_register": (handle, c_char_p, c_int, POINTER(c_int), c_int),
            "llapi_hsm_copytool_unregister": (handle,),
            "llapi_hsm_copytool_get_fd": (c_void_p,),
            "llapi_hsm_copytool_recv": (c_void_p, POINTER(c_void_p), POINTER(c_int)),
            "llapi_hsm_action_begin": (handle, c_void_p, c_char_p, c_int, c_int, c_bool),
            "llapi_hsm_action_end": (handle, POINTER(_Extent), c_int, c_int),
            "llapi_hsm_action_get_fd": (c_void_p,),
            "llapi_hsm_request": (c_char_p, POINTER(_Request)),
            "llapi_hsm_state_set_fd": (c_int, c_uint64, c_uint64, ctypes.c_uint32),
            "llapi_create_volatile_idx": (c_char_p, c_int, c_int),
            "llapi_fd2fid": (c_int, POINTER(_Fid)),
            "llapi_getname": (c_char_p, c_char_p, ctypes.c_size_t),
            "ioctl": (c_int, ctypes.c_ulong, c_void_p),
            "llapi_hsm_import": (
                c_char_p, c_int, c_void_p, c_ulonglong, c_int, c_int, c_int, c_char_p, POINTER(_Fid)
            ),
            "llapi_fid2path": (
                c_char_p, c_char_p, c_char_p, c_int, POINTER(c_longlong), POINTER(c_int)
            ),
        }.items():  # fmt: skip
            call = getattr(self.calls, name)
            call.argtypes, call.restype = arguments, c_int
        self.calls.llapi_msg_set_level(NO_MESSAGES)

    def import_released(self, path: bytes, archive_id: int, file: ReleasedFile) -> Fid:
        """Make a file that is released: reading it waits for a copytool of that archive. Raises OSError.

        Lustre makes the file first and releases it then, so give it a name that nobody looks for. Stripes
        are the directory's: the restored content gets them.
        """
        if self.stat is None:
            raise OSError(95, f"released files are not made on {os.uname().machine}")
        stat = self.stat(mode=file.mode, uid=file.uid, gid=file.gid, size=file.size)
        for name, ns in (("atime", file.atime_ns), ("mtime", file.mtime_ns)):
            seconds, rest = divmod(ns, 1_000_000_000)
            setattr(stat, name, _Time(seconds, rest))
        fid = _Fid()
        _done(self.calls.llapi_hsm_import(path, archive_id, byref(stat), 0, -1, 0, 0, None, byref(fid)))
        return Fid(fid.sequence, fid.object, fid.version)

    def hsm_state(self, descriptor: int) -> HsmState:
        """The state of an open file. Raises OSError."""
        found = _State()
        self._release_call("llapi_hsm_state_get_fd", descriptor, byref(found))
        return HsmState(found.flags, found.archive_id)

    def set_hsm_state(self, descriptor: int, flags: int, no_flags: int, archive_id: int) -> None:
        """Set and clear flags of an open file; an archive of 0 leaves it as it is. Raises OSError."""
        _done(self.calls.llapi_hsm_state_set_fd(descriptor, flags, no_flags, archive_id))

    def data_version(self, descriptor: int) -> int:
        """The version of an open file's content; clients write what they have first. Raises OSError."""
        found = c_uint64()
        self._release_call("llapi_get_data_version", descriptor, byref(found), c_uint64(_FLUSH_WRITES))
        return found.value

    def set_archived_version(self, descriptor: int, version: int) -> None:
        """Say which version of an open file the archive has. Raises OSError."""
        self._release_call("llapi_hsm_data_version_set", descriptor, c_uint64(version))

    def request_release(self, root: bytes, descriptor: int) -> None:
        """Have the metadata server free the content of an open file, if the archive has just this version.

        `root` is a path on that Lustre. Raises OSError: EPERM where it was changed since, EBUSY where
        somebody opens it just now.
        """
        self._request(root, descriptor, _RELEASE)

    def _request(self, root: bytes, descriptor: int, action: int, archive_id: int = 0) -> None:
        request = _Request(action=action, archive_id=archive_id, count=1, extent=_Extent(0, _WHOLE))
        request.fid = _fid(self.fid_of(descriptor))
        _done(self.calls.llapi_hsm_request(root, byref(request)))

    def client_of(self, mount: Path) -> str:
        """What this kernel calls the client of a mount; bind mounts have one. Raises OSError."""
        name = ctypes.create_string_buffer(256)
        _done(self.calls.llapi_getname(os.fsencode(mount), name, len(name)))
        return name.value.decode(errors="surrogateescape")

    def open_ping(self, mount: Path, archive_id: int) -> int:
        """A descriptor of a file without a name that is archived, as Lustre believes. Raises OSError."""
        descriptor = _done(self.calls.llapi_create_volatile_idx(os.fsencode(mount), -1, os.O_RDWR))
        try:
            os.setxattr(descriptor, PING, b"1")
            self.set_hsm_state(descriptor, EXISTS | ARCHIVED, 0, archive_id)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def request_removal(self, mount: Path, descriptor: int, archive_id: int) -> None:
        """Have an agent remove an open file from its archive. Raises OSError."""
        self._request(os.fsencode(mount), descriptor, _REMOVE, archive_id)

    def fid_of(self, descriptor: int) -> Fid:
        """The FID of an open file. Raises OSError."""
        fid = _Fid()
        _done(self.calls.llapi_fd2fid(descriptor, byref(fid)))
        return Fid(fid.sequence, fid.object, fid.version)

    def _release_call(self, name: str, *arguments: object) -> None:
        try:
            call = getattr(self.calls, name)
        except AttributeError:
            raise OSError(
                errno.EOPNOTSUPP, f"this client of Lustre has no {name}, which that of 2.17 has"
            ) from None
        _done(call(*arguments))


class CopytoolHandle:
    """A copytool that is registered for archives of a mounted Lustre. One thread receives.

    A metadata server knows one copytool of a client, the first; others register without an error, and are
    sent nothing. Where any of them closes, it knows none (Lustre 2.17; recording hsm217-hsm-agents-state).
    """

    def __init__(self, library: LustreLibrary, mount: Path, archive_ids: Collection[int]) -> None:
        """Raises GridwrightError where Lustre refuses, and OSError."""
        self.library, self._library = library, library.calls
        self._handle = c_void_p()
        self.mount, self.archive_ids = mount, tuple(sorted(archive_ids))
        archives = (c_int * len(self.archive_ids))(*self.archive_ids)
        self._root = os.open(mount, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        code = self._library.llapi_hsm_copytool_register(
            byref(self._handle), os.fsencode(mount), len(archives), archives, _O_NONBLOCK
        )
        if code < 0:
            os.close(self._root)
            raise _not_registered(mount, -code)
        self.descriptor = self._library.llapi_hsm_copytool_get_fd(self._handle)
        """Can be read when there is something to receive."""

    def receive(self) -> list[HsmAction]:
        """Actions that have come; none where none has.

        Raises OSError: ESHUTDOWN where Lustre is unmounted, EPROTO where another copytool of this client has
        left (2.17); ActionListError for a list that cannot be read.
        """
        found, size = c_void_p(), c_int()
        try:
            _done(self._library.llapi_hsm_copytool_recv(self._handle, byref(found), byref(size)))
        except BlockingIOError:
            return []
        # The buffer is the library's until the next call.
        return parse_action_list(ctypes.string_at(found, size.value) if found else b"")

    def begin(self, action: HsmAction, *, only_to_refuse: bool = False) -> BegunAction:
        """Begin an action; with `only_to_refuse` no volatile file is made. Raises OSError.

        What is restored has no layout until `copy_layout` gives it one.
        """
        begun = c_void_p()
        flags = _O_LOV_DELAY_CREATE if action.verb is HsmVerb.RESTORE else 0
        _done(
            self._library.llapi_hsm_action_begin(
                byref(begun), self._handle, action.item, -1, flags, only_to_refuse
            )
        )
        return BegunAction(self, begun, action)

    def progress(self, action: HsmAction, offset: int = 0, length: int = 0) -> None:
        """Tell what was moved of an action since the last time.

        It is told of the file, and not of the one that gets the content, as llapi_hsm_action_progress does:
        the metadata server keeps the FID that it was told, and takes no other agent's content after that
        (mdt_hsm_update_request_state of lustre/mdt/mdt_coordinator.c). Raises OSError: ECANCELED where it was
        cancelled, ENOENT where it is over.
        """
        self._tell(_Progress(_fid(action.fid), action.cookie, _Extent(offset, length)))

    def give_back(self, action: HsmAction) -> None:
        """Have an action handed out again, to one that is registered then. Raises OSError.

        An end of a restore by the library would name the file that was to get the content.
        """
        flags, number = _COMPLETED | RETRY, errno.EINTR
        self._tell(_Progress(_fid(action.fid), action.cookie, _Extent(0, 0), flags, number))

    def _tell(self, progress: _Progress) -> None:
        if self._library.ioctl(self._root, _PROGRESS, byref(progress)) < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def forget_archived(self, fid: Fid) -> None:
        """Have nobody release a file by Lustre's own commands before it is archived again. Raises OSError."""
        descriptor = os.open(self.fid_path(fid), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self.library.set_hsm_state(descriptor, 0, ARCHIVED, 0)
        finally:
            os.close(descriptor)

    def fid_path(self, fid: Fid) -> bytes:
        """A path by which the file is reached, whatever its names."""
        return os.fsencode(self.mount / ".lustre" / "fid" / str(fid))

    def path_of(self, fid: Fid) -> bytes:
        """The first name of a file, relative to the mount. Raises OSError."""
        path = ctypes.create_string_buffer(_LONGEST_PATH)
        record, link = c_longlong(-1), c_int(0)
        mount = os.fsencode(self.mount)
        _done(
            self._library.llapi_fid2path(
                mount, str(fid).encode(), path, _LONGEST_PATH, byref(record), byref(link)
            )
        )
        return path.value.lstrip(b"/")

    def unregister(self) -> None:
        """Tell Lustre that nothing is to be sent any more. Actions that were begun have no end any more."""
        if self._handle:
            self._library.llapi_hsm_copytool_unregister(byref(self._handle))


class BegunAction:
    """An action under way. Progress and end may come from several threads, one at a time."""

    def __init__(self, handle: CopytoolHandle, begun: c_void_p, action: HsmAction) -> None:
        self._handle, self._library = handle, handle.library.calls
        self._begun = begun
        self.action = action

    def open_content(self) -> int:
        """A descriptor, the caller's: of the file to be archived, or of the one that gets what is restored.

        Raises OSError.
        """
        return _done(self._library.llapi_hsm_action_get_fd(self._begun))

    def progress(self, offset: int, length: int) -> None:
        """Tell what was moved since the last time, as `CopytoolHandle.progress`. Raises OSError."""
        self._handle.progress(self.action, offset, length)

    def end(self, length: int, error: int, *, may_retry: bool = False) -> None:
        """End it: with 0 the content is in place, else with an errno. Raises OSError."""
        flags = RETRY if may_retry else 0
        _done(self._library.llapi_hsm_action_end(byref(self._begun), byref(_Extent(0, length)), flags, error))


def copy_layout(source: bytes, descriptor: int) -> None:
    """Give what is restored stripes, components and mirrors of the released file, before its first byte.

    Where that cannot be, it gets those of the file system: without a layout it takes no byte (EBADF).
    """
    try:
        os.setxattr(descriptor, _LAYOUT, _unreleased(os.getxattr(source, _LAYOUT)), os.XATTR_CREATE)
    except OSError:
        with suppress(OSError):
            os.setxattr(descriptor, _LAYOUT, _ANY_LAYOUT, os.XATTR_CREATE)


def _unreleased(layout: bytes) -> bytes:
    """A plain layout without what says that it is released; in composite ones Lustre's client hides that."""
    if int.from_bytes(layout[:4], "little") == _COMPOSITE:
        return layout
    pattern = int.from_bytes(layout[4:8], "little") & ~_PATTERN_RELEASED
    return layout[:4] + pattern.to_bytes(4, "little") + layout[8:]


def is_on_mdt(descriptor: int) -> bool:
    """Whether an open file has content on a metadata target (data on MDT). Raises OSError."""
    layout = os.getxattr(descriptor, _LAYOUT)

    def word(offset: int) -> int:
        return int.from_bytes(layout[offset : offset + 4], "little")

    starts = range(0)
    if word(0) == _COMPOSITE:
        starts = range(32, 32 + 48 * int.from_bytes(layout[14:16], "little"), 48)
    return any(word(word(start + 24) + 4) & _ON_MDT for start in starts)


def _fid(fid: Fid) -> _Fid:
    return _Fid(fid.sequence, fid.object, fid.version)


def _done(code: int) -> int:
    if code < 0:
        raise OSError(-code, os.strerror(-code))
    return code


def _not_registered(mount: Path, number: int) -> GridwrightError:
    return environment_error(
        f"Lustre takes no copytool here: {os.strerror(number)}",
        where=str(mount),
        remedy="run it as root on a client that mounts Lustre, and have HSM enabled on the servers: "
        "lctl set_param -P mdt.*.hsm_control=enabled",
    )
