"""Lists of actions, as the coordinator of Lustre's HSM hands them to a copytool.

Layout: `struct hsm_action_list` and `struct hsm_action_item` of lustre/include/uapi/linux/lustre/
lustre_user.h, and `hai_first`, `hai_next` there (Lustre 2.10 to 2.17; HAL_VERSION is 1). Both are packed and
in the byte order of the machine; items begin at multiples of 8 bytes after the name of the file system.
"""

from __future__ import annotations

import struct
import sys
from dataclasses import dataclass
from enum import IntEnum

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
