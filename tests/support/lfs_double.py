"""A stand-in for `lfs` that keeps layouts in a file, and refuses what lfs of 2.17 refuses.

`tests/lustre/test_layouts.py` holds it to a real one.

Files and directories below the root are real; where they lie is kept in the state. It is a program of its
own, which needs nothing but Python.
"""
# ruff: noqa: T201, E501 - a program that prints, in words of another one

from __future__ import annotations

import fcntl
import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

UNITS = {"k": 2**10, "K": 2**10, "M": 2**20, "G": 2**30}


class Refused(Exception):
    """What lfs says, and its exit status."""

    def __init__(self, status: int, text: str) -> None:
        self.status, self.text = status, text


@contextmanager
def state(*, note: bool = True) -> Iterator[dict[str, Any]]:
    """The state, kept when nothing was refused; with `note` what was asked is kept in any case."""
    path = Path(os.environ["LFS_STATE"])
    with path.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        content = json.loads(path.read_text())
        if note:
            content["asked"].append(sys.argv[1:])
            keep(path, content)
        yield content
        keep(path, content)


def keep(path: Path, content: Mapping[str, Any]) -> None:
    """In one step: whoever reads it meanwhile, or kills this, has the old one or the new one."""
    path.with_suffix(".new").write_text(json.dumps(content))
    path.with_suffix(".new").replace(path)


GONE = {
    "getstripe": "lfs: getstripe for '{}' failed: No such file or directory",
    "setstripe": "lfs setstripe: unable to open '{}': No such file or directory (2)",
    "hsm_state": "lfs hsm_state: get HSM state for '{}' failed: No such file or directory",
    "migrate": "error: lfs migrate: {}: cannot open source file: No such file or directory",
}
ELSEWHERE = {
    "getstripe": "lfs getstripe: cb_getstripe: '{0}' not on a Lustre fs?: Inappropriate ioctl for device (25)\n"
    "lfs: getstripe for '{0}' failed: Inappropriate ioctl for device",
    "setstripe": "lfs setstripe: setstripe error for '{}': Inappropriate ioctl for device",
    "hsm_state": "lfs hsm_state: get HSM state for '{}' failed: Inappropriate ioctl for device",
    "migrate": "error: lfs migrate: {}: cannot get MDT index: Inappropriate ioctl for device",
}


def on_lustre(kept: Mapping[str, Any], path: str, verb: str) -> None:
    if not os.path.lexists(path):
        raise Refused(2, GONE[verb].format(path))
    if not kept["mounted"] or not Path(path).is_relative_to(kept["root"]):
        raise Refused(25, ELSEWHERE[verb].format(path))


def number(text: str) -> int:
    return int(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else int(text)


def component(start: int, value: str, verb: str) -> dict[str, Any]:
    end = -1 if value == "-1" else number(value)
    if end != -1 and end <= start:
        extent = f"Set extent [{start}, {end}) failed. Invalid argument"
        raise Refused(22, f"{extent}\nerror: lfs {verb}: invalid layout")
    size = 4194304 if end == -1 else min(4194304, end - start)
    return {"start": start, "end": end, "count": 1, "size": size, "pattern": "raid0"}


def parts_of(words: Sequence[str], kept: Mapping[str, Any], verb: str) -> list[dict[str, Any]]:
    """Components by the options of setstripe."""
    parts: list[dict[str, Any]] = []
    start = 0
    options = iter(words)
    for option in options:
        value = next(options, "")
        if option == "-E":
            parts.append(component(start, value, verb))
            start = parts[-1]["end"]
            continue
        if not parts:
            parts.append(
                {"start": 0, "end": -1, "count": 1, "size": 4194304, "pattern": "raid0", "plain": True}
            )
        if option in ("-c", "-C"):
            if not -1 <= int(value) <= 2000:
                raise Refused(4, f"lfs {verb} {verb}: invalid stripe count '{value}'")
            parts[-1]["count"] = int(value)
            parts[-1]["pattern"] = "raid0,overstriped" if option == "-C" else "raid0"
        elif option == "-S":
            if number(value) % 65536:
                raise Refused(4, f"lfs {verb} {verb}: invalid stripe size '{value}'")
            parts[-1]["size"] = number(value)
        elif option == "-p":
            if value not in kept["pools"]:
                raise Refused(
                    22,
                    f"lfs {verb}: pool '{value} fsname scratch' does not exist: No such file or directory (2)",
                )
            parts[-1]["pool"] = value
        elif option == "-o":
            parts[-1] |= {"count": value.count(",") + 1, "on": [int(each) for each in value.split(",")]}
        elif option == "-L":
            parts[-1] |= {"pattern": value, "count": 0}
        else:
            raise Refused(4, f"lfs {verb}: unrecognized option '{option}'")
    return parts


def yaml(parts: Sequence[Mapping[str, Any]], prefix: str) -> str:
    """As the recorded --yaml has it."""

    def fields(part: Mapping[str, Any], pad: str) -> str:
        rows = [("stripe_count", part["count"]), ("stripe_size", part["size"]), ("pattern", part["pattern"])]
        rows += [("pool", part["pool"])] if "pool" in part else []
        text = "".join(f"{pad}{prefix}{name}:  {value}\n" for name, value in [*rows, ("stripe_offset", -1)])
        if part.get("osts"):
            text += f"{pad}{prefix}objects:\n" + "".join(
                f"{pad}- l_ost_idx: {each}\n{pad}  l_fid:     0x280000400:0x{each + 3:x}:0x0\n"
                for each in part["osts"]
            )
        return text

    if len(parts) == 1 and parts[0].get("plain"):
        return fields(parts[0], "")
    text = f"lcm_layout_gen:    0\nlcm_mirror_count:  1\nlcm_entry_count:   {len(parts)}\ncomponents:\n"
    for part in parts:
        end = "EOF" if part["end"] == -1 else part["end"]
        flags = "init" if part.get("osts") else "0"
        text += (
            f"  - lcme_id:             N/A\n    lcme_mirror_id:      N/A\n    lcme_flags:          {flags}\n"
        )
        text += f"    lcme_extent.e_start: {part['start']}\n    lcme_extent.e_end:   {end}\n    sub_layout:\n"
        text += fields(part, " " * 6)
    return text


def with_objects(parts: list[dict[str, Any]], size: int, kept: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a file of a size gets: as many OSTs as there are, and no objects beyond its end."""
    for part in parts:
        if part["start"] < max(size, 1) and part["pattern"] != "mdt":
            count = min(part["count"] if part["count"] > 0 else kept["osts"], kept["osts"])
            free = [(kept["next"] + each) % kept["osts"] for each in range(count)]
            part |= {"count": count, "osts": part.get("on", free)}
    return parts


def layout_of(kept: Mapping[str, Any], path: str) -> list[dict[str, Any]]:
    if path in kept["layouts"]:
        return list(kept["layouts"][path])
    for above in Path(path).parents:
        if str(above) in kept["layouts"]:
            parts = [dict(each) for each in kept["layouts"][str(above)]]
            return parts if Path(path).is_dir() else with_objects(parts, Path(path).stat().st_size, kept)
    if Path(path).is_dir():
        return list(kept["default"])
    part = {
        "start": 0,
        "end": -1,
        "count": 1,
        "size": 4194304,
        "pattern": "raid0",
        "plain": True,
        "osts": [0],
    }
    return [part]


def attribute(parts: Sequence[Mapping[str, Any]]) -> bytes:
    """As lustre_user.h has it."""
    blobs = [striping(each) for each in parts]
    if len(parts) == 1 and parts[0].get("plain"):
        return blobs[0]
    entries, offset = b"", 32 + 48 * len(parts)
    for place, (part, blob) in enumerate(zip(parts, blobs, strict=True)):
        flags = 0x10 if part.get("osts") else 0
        bounds = (part["start"], part["end"] % 2**64, offset, len(blob))
        entries += struct.pack("<IIQQIIIQI", place + 1, flags, *bounds, 0, 0, 0)
        offset += len(blob)
    head = struct.pack("<IIIHHH6xQ", 0x0BD60BD0, offset, 1, 0, len(parts), 0, 0)
    return head + entries + b"".join(blobs)


def striping(part: Mapping[str, Any]) -> bytes:
    pattern = 0x80000001 if "released" in part["pattern"] else 1
    osts = part.get("osts", [])
    head = struct.pack(
        "<IIQQIHH", 0x0BD10BD0, pattern, 2, 0x200000401, part["size"], part["count"] & 0xFFFF, 0xFFFF
    )
    return head + b"".join(struct.pack("<QQII", 0x240000400, 3, 0, ost) for ost in osts)


def getstripe(words: list[str]) -> int:
    with state() as kept:
        paths = [each for each in words if not each.startswith("-")]
        for path in paths:
            on_lustre(kept, path, "getstripe")
            text = yaml(layout_of(kept, path), "" if Path(path).is_dir() else "lmm_")
            print(text if "--yaml" in words else f"{path}\n{text}")
    return 0


def setstripe(words: list[str]) -> int:
    *options, path = words
    with state() as kept:
        if kept["squashed"]:
            raise Refused(13, f"lfs setstripe: setstripe error for '{path}': Permission denied")
        if kept["refuses"]:
            raise Refused(1, f"lfs setstripe: cannot create composite file '{path}': {kept['refuses']}")
        parts = parts_of(options, kept, "setstripe")
        on_lustre(kept, path, "setstripe")
        if not Path(path).is_dir():
            raise Refused(17, f"lfs setstripe: setstripe error for '{path}': stripe already set")
        kept["layouts"][path] = parts
        if parts[0]["count"] in kept["waits"]:
            subprocess.run(["chattr", "+S", path], check=True)
    return 0


def hsm_state(words: list[str]) -> int:
    with state() as kept:
        for path in words:
            on_lustre(kept, path, "hsm_state")
            flags = kept["hsm"].get(path, 0)
            names = {1: "exists", 8: "archived", 4: "released", 2: "dirty"}
            shown = "".join(f" {name}" for bit, name in names.items() if flags & bit)
            print(f"{path}: (0x{flags:08x}){shown}" + (", archive_id:1" if flags else ""))
    return 0


def migrate(words: list[str]) -> int:
    *options, path = words
    with state() as kept:
        if "-n" in options:
            options.remove("-n")
        if "-W" in options:
            if kept["no_limit"]:
                raise Refused(4, "lfs migrate: unrecognized option '-W'")
            del options[options.index("-W") : options.index("-W") + 2]
        parts = parts_of(options, kept, "migrate")
        on_lustre(kept, path, "migrate")
        if path in kept["open"]:
            raise Refused(
                16,
                "lfs migrate: cannot get READ lease, ext 0 for [0x200000401:0x1:0x0]: Device or resource busy (16)\n"
                f"error: lfs migrate: {path}: cannot get lease: Device or resource busy",
            )
    time.sleep(float(kept["slow"]))
    with state(note=False) as kept:
        kept["layouts"][path] = with_objects(parts, Path(path).stat().st_size, kept)
        os.setxattr(path, "trusted.lov", attribute(kept["layouts"][path]))
        kept["next"] += 1
        kept["moved"].append(path)
        if kept["hsm"].get(path):
            kept["hsm"][path] |= 2
        if path in kept["spoils"]:
            before = Path(path).stat()
            content = Path(path).read_bytes()
            with Path(path).open("r+b") as file:
                file.write(bytes([content[0] ^ 1]))
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    return 0


def main() -> int:
    verbs = {"getstripe": getstripe, "setstripe": setstripe, "hsm_state": hsm_state, "migrate": migrate}
    time.sleep(float(json.loads(Path(os.environ["LFS_STATE"]).read_text())["hangs"]))
    try:
        return verbs[sys.argv[1]](sys.argv[2:])
    except Refused as error:
        print(error.text, file=sys.stderr)
        return error.status


def installed(directory: Path, root: Path, **given: Any) -> Path:
    """Write the program into a directory, with a state of its own; the path of the state.

    Files of a directory whose layout has as many stripes as `waits` says are slow: each write waits for the disk, by
    the attribute S of ext4.
    """
    directory.mkdir(exist_ok=True)
    program = directory / "lfs"
    program.write_text(f"#!{sys.executable}\n" + Path(__file__).read_text())
    program.chmod(0o755)
    default = [{"start": 0, "end": -1, "count": 1, "size": 4194304, "pattern": "0", "plain": True}]
    kept = {
        "root": str(root), "mounted": True, "osts": 8, "next": 0, "default": default, "layouts": {}, "hsm": {},
        "open": [], "pools": [], "squashed": False, "no_limit": False, "slow": 0, "spoils": [], "moved": [],
        "asked": [], "refuses": "", "hangs": 0, "waits": [], **given,
    }  # fmt: skip
    path = directory / "lfs-state.json"
    path.write_text(json.dumps(kept))
    return path


if __name__ == "__main__":
    sys.exit(main())
