"""Layouts of every kind on a real Lustre: read from the attribute, told by lfs, and set."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gridwright.errors import ExitStatus
from gridwright.filesystems.layout import Component, FileLayout
from gridwright.filesystems.lustre_client.attribute import decode_attribute
from gridwright.filesystems.lustre_client.layout import parse_layout, plain, progressive, set_layout_command
from tests.support.lfs_double import installed
from tests.support.lustre_vm import LustreMachine
from tests.support.skips import root_only

PLACE, MIB = "/mnt/lustre/layouts", 1 << 20
GRID = """
name: layouts
scheduler: {type: local}
state: /root/layouts-state
filesystems: {scratch: {type: lustre, path: /mnt/lustre, source: "192.168.77.1@tcp:/testfs"}}
libraries: {data: {filesystem: scratch, path: layouts}}
"""
MADE = {
    "plain": "lfs setstripe -c 1 FILE",
    "stripes": "lfs setstripe -c 2 -S 1M FILE",
    "components": "lfs setstripe -E 1M -c 1 -E 16M -c 2 -E -1 -c -1 -S 4M FILE",
    "on-mdt": "lfs setstripe -E 64K -L mdt -E -1 -c 2 FILE",
    "mirrors": "lfs mirror create -N -c 1 -N -c 2 FILE",
    "overstriped": "lfs setstripe -C 4 FILE",
    "pool": "lfs setstripe -c 1 -p fast FILE",
    "extending": "lfs setstripe -E 16M -c 1 -E 128M -z 64M -c 1 -E -1 -z 256M -c 2 FILE",
}
"""How a file of that name is made."""
SHOWN = {
    "plain": "1 OST (stripes of 4 MiB)",
    "stripes": "2 OSTs (stripes of 1 MiB)",
    "overstriped": "4 stripes",
    "pool": "fast",
    "on-mdt": "metadata server",
    "mirrors": "mirrored: 2 OSTs",
}
"""Words of what `layout show` says."""
SET = {
    "plain": plain(2),
    "stripes": replace(plain(2), components=(Component(stripe_count=2, stripe_bytes=MIB),)),
    "parts": progressive((16 * MIB, 1), (None, -1)),
    "pool": plain(1, pool="fast"),
    "overstriped": FileLayout((Component(stripe_count=4, overstriped=True),)),
    "on-mdt": FileLayout(
        (
            Component(end=65536, stripe_count=0, on_metadata_server=True),
            Component(start=65536, stripe_count=2),
        )
    ),
}
SAID = [
    ("setstripe", "-c", "2", "DIR/plain"),
    ("getstripe", "-d", "--yaml", "DIR/plain"),
    ("setstripe", "-c", "2", "-S", "1M", "DIR/stripes"),
    ("getstripe", "-d", "--yaml", "DIR/stripes"),
    ("setstripe", "-E", "16M", "-c", "1", "-E", "-1", "-c", "-1", "DIR/parts"),
    ("getstripe", "-d", "--yaml", "DIR/parts"),
    ("setstripe", "-C", "4", "DIR/over"),
    ("getstripe", "-d", "--yaml", "DIR/over"),
    ("setstripe", "-c", "2001", "DIR/plain"),
    ("setstripe", "-S", "1000", "DIR/plain"),
    ("setstripe", "-p", "nosuch", "DIR/plain"),
    ("setstripe", "-E", "4M", "-c", "1", "-E", "2M", "-c", "1", "DIR/plain"),
    ("setstripe", "-c", "2", "DIR/nosuch/file"),
    ("setstripe", "-c", "2", "DIR/file"),
    ("setstripe", "--nosuch", "2", "DIR/file"),
    ("getstripe", "-d", "--yaml", "DIR/nosuch"),
    ("getstripe", "-d", "--yaml", "/tmp"),
    ("getstripe", "--yaml", "DIR/file"),
    ("hsm_state", "DIR/file", "DIR/archived"),
    ("hsm_state", "DIR/nosuch"),
    ("hsm_state", "/tmp"),
    ("migrate", "-n", "-W", "100M", "-c", "2", "DIR/file"),
    ("getstripe", "--yaml", "DIR/file"),
    ("migrate", "-n", "-E", "1M", "-c", "1", "-E", "-1", "-c", "-1", "DIR/file"),
    ("getstripe", "--yaml", "DIR/file"),
    ("migrate", "-n", "-c", "2", "-o", "0,1", "DIR/file"),
    ("getstripe", "--yaml", "DIR/file"),
    ("migrate", "-n", "-c", "1", "DIR/open"),
    ("migrate", "-n", "-c", "1", "DIR/nosuch"),
]
"""Commands of lfs, which its double answers as Lustre does."""


@dataclass(frozen=True)
class Library:
    """Files of all kinds, and for each its attribute, what lfs says, and what Gridwright shows."""

    machine: LustreMachine
    attributes: dict[str, bytes]
    told: dict[str, str]
    shown: str


@pytest.fixture(scope="module")
def library(lustre: LustreMachine) -> Iterator[Library]:
    makes = "\n".join(how.replace("FILE", name) for name, how in MADE.items())
    reads = (
        "import json, os, subprocess as s, sys\n"
        "yaml = lambda each: s.check_output(['lfs', 'getstripe', '--yaml', each], text=True)\n"
        "attribute = lambda each: os.getxattr(each, 'lustre.lov').hex()\n"
        "print(json.dumps({each: [attribute(each), yaml(each)] for each in sys.argv[1:]}))"
    )
    names = " ".join(MADE)
    lustre.run(
        "lctl pool_new testfs.fast && lctl pool_add testfs.fast testfs-OST0001\n"
        "for i in $(seq 100); do lfs pool_list testfs.fast | grep -q OST0001 && break; sleep 0.2; done\n"
        f"mkdir {PLACE} && cd {PLACE}\n{makes}\n"
        f"for i in {names}; do head -c 3M /dev/urandom >$i; done"
    )
    try:
        told = json.loads(lustre.run(f"cd {PLACE} && python3 -c {shlex.quote(reads)} {names}").out)
        lustre.run("cat >/root/layouts.yaml", given=GRID.encode())
        paths = [f"{PLACE}/{each}" for each in MADE]
        shown = lustre.gridwright("layout", "show", "/root/layouts.yaml", *paths).out
        yield Library(
            lustre,
            {name: bytes.fromhex(hexed) for name, (hexed, _) in told.items()},
            {name: yaml for name, (_, yaml) in told.items()},
            shown,
        )
    finally:
        lustre.run(
            f"rm -rf {PLACE}; lctl pool_remove testfs.fast testfs-OST0001; lctl pool_destroy testfs.fast"
        )


@pytest.mark.parametrize("kind", MADE)
def test_the_attribute_says_what_lfs_says(library: Library, kind: str) -> None:
    found = decode_attribute(library.attributes[kind]).layout
    told = parse_layout(library.told[kind])
    assert found is not None
    assert told is not None
    # lfs tells no count of a part by which another one extends itself.
    parts = [
        replace(each, stripe_count=0) if "extension" in each.flags else each for each in found.components
    ]
    assert tuple(parts) == told.components


@pytest.mark.parametrize("kind", SHOWN)
def test_each_kind_is_shown(library: Library, kind: str) -> None:
    (row,) = (
        each for each in " ".join(library.shown.split()).split(f"{PLACE}/") if each.startswith(f"{kind}")
    )
    assert SHOWN[kind] in row


def test_a_directory_gets_the_layout_that_is_set(library: Library) -> None:
    commands = []
    for name, layout in SET.items():
        path = f"{PLACE}/set-{name}"
        set_ = shlex.join(set_layout_command(layout, path))
        commands.append(f"mkdir {path} && {set_} && echo =={name} && lfs getstripe -d --yaml {path}")
    parts = library.machine.run("\n".join(commands)).out.split("==")[1:]
    found = {name: parse_layout(text) for name, _, text in (each.partition("\n") for each in parts)}
    assert {name: _essence(layout) for name, layout in found.items()} == {
        name: _essence(layout) for name, layout in SET.items()
    }


@pytest.mark.thorough
def test_a_library_gets_its_layout_and_has_it_then(library: Library) -> None:
    words = ("layout", "set", "/root/layouts.yaml", "data", "--layout", "16MiB:1,-1")
    assert "-> 1 OST (stripes of 4 MiB) until 16 MiB, then all" in library.machine.gridwright(*words).out
    assert "as it should be" in library.machine.gridwright(*words).out


def test_a_layout_that_is_wider_than_the_osts_and_paths_that_are_not_there_are_refused(
    library: Library,
) -> None:
    words = ("layout", "set", "/root/layouts.yaml", "data", "--layout", "5")
    ended = library.machine.gridwright(*words, ok=False)
    assert ended.status == ExitStatus.INPUT
    assert "files are to have 5 stripes" in ended.err
    assert "2 OSTs" in ended.err
    paths = (f"{PLACE}/gone", "/root/layouts.yaml")
    ended = library.machine.gridwright("layout", "rebalance", "/root/layouts.yaml", *paths, ok=False)
    assert ended.status == ExitStatus.INPUT
    assert f"{PLACE}/gone: no such file" in ended.err
    assert "/root/layouts.yaml: the path is in no library" in ended.err
    ended = library.machine.gridwright("layout", "show", "/root/layouts.yaml", paths[0], ok=False)
    assert ended.status == ExitStatus.INPUT
    assert f"{PLACE}/gone: no such file" in ended.err


@pytest.mark.thorough
def test_a_layout_that_asks_for_more_osts_than_there_are_is_told(library: Library) -> None:
    words = ("--directory", PLACE, "--phases", "write", "--seconds", "1", "--streams", "1", "--repeat", "3")
    ended = library.machine.gridwright("iotest", *words, "--layout", "4", "--json", "--allow-disturbed")
    (told,) = (each["text"] for each in ended.json["findings"] if each["name"] == "layout-narrower")
    assert "2" in told


@root_only
def test_the_double_of_lfs_says_the_same(library: Library, tmp_path: Path) -> None:
    assert on_double(tmp_path) == on_lustre(library.machine)


def on_lustre(machine: LustreMachine) -> list[tuple[object, ...]]:
    place = f"{PLACE}/said"
    run = (
        "import json, subprocess as s, sys\n"
        f"held = open('{place}/open', 'r+')\n"
        "done = [s.run(each, capture_output=True, text=True) for each in json.load(sys.stdin)]\n"
        "print(json.dumps([(each.returncode, each.stdout, each.stderr) for each in done]))"
    )
    machine.run(
        f"mkdir {place} && cd {place} && mkdir plain stripes parts over\n"
        "for i in file archived open; do lfs setstripe -c 1 $i && head -c 3M /dev/urandom >$i; done\n"
        "sync; lfs hsm_set --exists --archived archived"
    )
    commands = [["lfs", *(word.replace("DIR", place) for word in each)] for each in SAID]
    told = machine.run(f"python3 -c {shlex.quote(run)}", given=json.dumps(commands).encode()).out
    return [_said(command, place, *each) for command, each in zip(SAID, json.loads(told), strict=True)]


def on_double(directory: Path) -> list[tuple[object, ...]]:
    place = directory / "mnt"
    for name in ("plain", "stripes", "parts", "over"):
        (place / name).mkdir(parents=True)
    for name in ("file", "archived", "open"):
        (place / name).write_bytes(os.urandom(3 * MIB))
    state = installed(
        directory / "bin", place, osts=2, open=[str(place / "open")], hsm={str(place / "archived"): 9}
    )
    found = []
    for each in SAID:
        words = [word.replace("DIR", str(place)) for word in each]
        done = subprocess.run(
            [directory / "bin/lfs", *words], env={**os.environ, "LFS_STATE": str(state)},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        found.append(_said(each, str(place), done.returncode, done.stdout, done.stderr))
    return found


def _said(command: Sequence[str], place: str, status: int, out: str, err: str) -> tuple[object, ...]:
    """What a command said, without what differs between two file systems: places, names, FIDs and targets."""
    layout = parse_layout(out) if command[0] == "getstripe" and status == 0 else None
    told: object = _essence(layout) if layout else re.sub(r", archive_id:\d+", "", out.replace(place, "DIR"))
    # A command that is wrong prints its usage, too.
    told = told if status == 0 else ""
    why = re.sub(r"fsname \w+|\[0x[0-9a-f:x]+\]|VOLATILE:[0-9A-F:]+", "", err.replace(place, "DIR"))
    return (" ".join(command), status, told, why)


def _essence(layout: FileLayout | None) -> object:
    """A layout without the targets that a server chooses, and without its default for stripes."""
    assert layout is not None
    own = (4 * MIB, 65536)
    return [
        replace(each, osts=(), stripe_bytes=None if each.stripe_bytes in own else each.stripe_bytes)
        for each in layout.components
    ]
