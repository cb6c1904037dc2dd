"""What a crash or a reboot of its machine leaves of a lab: its files, and of the rest nothing or a part."""

from __future__ import annotations

import json
import os
import signal
import uuid
from contextlib import suppress
from pathlib import Path

from gridwright.providers.lab import namespaces
from gridwright.providers.lab.record import read
from tests.support.command import wait_until
from tests.support.lab import Lab


def crash(lab: Lab) -> None:
    """Kill every process of a lab at once, as far as nobody else has done it; this machine runs on."""
    record = read(lab.name)
    assert record is not None
    tops = [Path(top) for top in record.group_tops]
    first = [*record.processes(), *([record.power] if record.power else [])]
    inside = {pid for top in tops for pid in namespaces.processes(top)}
    for pid in {each.pid for each in first if each.alive} | inside:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def left() -> list[object]:
        members = {pid for top in tops for pid in namespaces.processes(top)}
        return [*members, *(each for each in first if each.alive)]

    wait_until(lambda: True if not left() else None, seconds=20, what="the end of all", last=left)


def reboot(lab: Lab) -> None:
    """Crash, and leave what the next boot of the machine finds: no groups, no devices, another boot id."""
    crash(lab)
    record = read(lab.name)
    assert record is not None
    assert namespaces.remove([Path(top) for top in record.group_tops]) == []
    wait_until(
        lambda: True if not loops(lab) else None, seconds=20, what="no device", last=lambda: loops(lab)
    )
    write_record(lab, boot=str(uuid.uuid4()))


def loops(lab: Lab) -> list[str]:
    """Disks of a lab that have a block device."""
    found = []
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            found.append(path.read_text().strip())
    return [each for each in found if each.startswith(str(lab.record.parent))]


def write_record(lab: Lab, **fields: object) -> None:
    """Change fields of a record, as some other state of a lab has them."""
    lab.record.write_text(json.dumps(json.loads(lab.record.read_text()) | fields))
