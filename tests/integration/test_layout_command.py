"""`gridwright layout` on a directory whose files have the attributes of a Lustre, as root sees them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridwright.commands import run_here
from gridwright.filesystems.layout import Component, DesiredLayout, FileLayout
from gridwright.filesystems.lustre_client.layout import parse_layout
from gridwright.filesystems.lustre_client.library_findings import LayoutFindings, scan_library
from tests.fixtures.lustre_node import printed
from tests.support.command import Command
from tests.support.hanging_mount import hanging_mount
from tests.support.lov_attribute import lov_attribute
from tests.support.skips import root_only

pytestmark = root_only
MIB = 2**20
LCTL = """#!/bin/sh
echo lov.scratch-clilov-ffff.numobd=4
"""
LFS = f"""#!/bin/sh
[ "$1" = df ] && cat "$(dirname "$0")/df.out" && exit
cat {Path(__file__).parent.parent}/fixtures/lustre/212-getstripe-yaml-pfl.out
"""


def striped(*osts: int) -> bytes:
    part = Component(stripe_count=len(osts), stripe_bytes=2**20, osts=osts)
    return lov_attribute(FileLayout((part,)))


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A grid whose data library has a file narrower than new ones; beside it lie lctl and lfs."""
    data = tmp_path / "lustre" / "data"
    data.mkdir(parents=True)
    pfl = parse_layout(printed("221-getstripe-d-yaml-dir3"))
    assert pfl is not None
    os.setxattr(data, "trusted.lov", lov_attribute(pfl))
    for name, attribute in (("one", striped(3)), ("released", striped(1)), ("small", striped(0))):
        path = data / name
        path.write_bytes(b"")
        os.setxattr(path, "trusted.lov", attribute)
    with (data / "one").open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, 200 * MIB)
    os.utime(data / "one", (time.time() - 600,) * 2)
    for name, text in (("lctl", LCTL), ("lfs", LFS)):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(text)
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    path = tmp_path / "grid.yaml"
    path.write_text(
        "name: recorded\nprovider: local\nfilesystems:\n"
        f"  lustre: {{type: lustre, path: {tmp_path / 'lustre'}, source: 'h@tcp:/scratch'}}\n"
        "libraries:\n  data: {filesystem: lustre}\n"
    )
    yield path
    (data / "one").unlink()


def test_libraries_are_shown_with_what_new_files_get_and_what_is_there(
    gridwright: Command, spec: Path
) -> None:
    ended = gridwright("layout", "show", str(spec))
    assert ended.status == 0
    assert "data: new files get 1 OST (stripes of 4 MiB) until 64 MiB, then all" in ended.out
    assert (
        "the model chooses 1 OST until 64 MiB, then 4 until 4 GiB, then all: gridwright layout set"
        in ended.out
    )
    document = gridwright("layout", "show", str(spec), "--json").json
    data = document["libraries"]["data"]
    assert (data["is_as_wanted"], data["wanted_by"]) == (False, "the model")
    assert (data["files"], data["targets"]["3"] // MIB) == (3, 200)
    assert {(each["layout"], each["files"]) for each in data["classes"]} == {("1 OST", 1), ("1 OST", 2)}


def test_a_directory_that_is_not_there_has_no_layout_that_new_files_get(
    gridwright: Command, spec: Path
) -> None:
    spec.write_text(spec.read_text() + "  work: {filesystem: lustre}\n")
    ended = gridwright("layout", "show", str(spec))
    assert "work: what new files get is not known: No such file or directory" in ended.out
    assert ended.out.count("layout set") == 1, "that of data alone can be set"


def test_a_file_is_shown_with_its_components(gridwright: Command, spec: Path) -> None:
    ended = gridwright("layout", "show", str(spec), str(spec.parent / "lustre" / "data" / "one"))
    assert ended.out.splitlines()[1:] == [
        "  0 B to 64 MiB: 1 OST (stripes of 4 MiB), targets 0, init",
        "  64 MiB to the end: 2 OSTs (stripes of 4 MiB), targets 1 0, init",
    ]
    assert gridwright("layout", "show", str(spec), "/etc").status == 2
    both = gridwright("layout", "show", str(spec), "/etc", str(spec.parent / "lustre" / "data" / "one"))
    assert both.status == 2
    assert both.out == ended.out
    assert "/etc is in no library" in both.err


def test_a_check_finds_the_narrow_file_and_a_silenced_finding_is_none(
    gridwright: Command, spec: Path
) -> None:
    ended = gridwright("layout", "check", str(spec), "--json")
    assert ended.status == 1
    assert [(each["library"], each["name"]) for each in ended.json["findings"]] == [
        ("data", "directory-layout-differs"),
        ("data", "files-laid-out-otherwise"),
    ]
    spec.write_text(
        spec.read_text()
        + "silence:\n  files-laid-out-otherwise: archived soon\n  directory-layout-differs: it is to be so\n"
    )
    quiet = gridwright("layout", "check", str(spec))
    assert (quiet.status, quiet.out.strip()) == (
        0,
        "nothing is wrong with the layouts of what was looked at",
    )


def test_a_check_says_what_unevenly_full_osts_cost(gridwright: Command, spec: Path) -> None:
    """Two full OSTs of four: with one stripe a file, streams mostly meet the other two."""
    rows = (
        f"scratch-OST000{place}_UUID 1000000 {1000000 - free} {free} 1% /l[OST:{place}]"
        for place, free in enumerate((600000, 80000, 600000, 80000))
    )
    (spec.parent / "bin" / "df.out").write_text(
        "\n".join(["UUID 1K-blocks Used Available Use% Mounted on", *rows, ""])
    )
    spec.write_text(
        spec.read_text().replace("filesystem: lustre}", "filesystem: lustre, layout: 1}")
        + "nodes: {compute: {count: 1, cores: 8, memory: 8 GiB}}\n"
        + "silence: {files-laid-out-otherwise: x, directory-layout-differs: x}\n"
    )
    ended = gridwright("layout", "check", str(spec), "--json")
    (found,) = ended.json["findings"]
    assert (ended.status, found["library"], found["name"]) == (1, "data", "targets-unbalanced")
    assert found["text"].startswith("scratch-OST0001 has 8 % free against 60 % of scratch-OST0000: large new")
    assert "files of 8 streams meet 3 of 4 OSTs" in found["text"]


def test_what_an_archive_knows_is_left_alone_by_a_check(gridwright: Command, spec: Path) -> None:
    lfs = spec.parent / "bin" / "lfs"
    lfs.write_text(
        '#!/bin/sh\nif [ "$1" = hsm_state ]; then shift; for path; do echo "$path: (0x00000009) exists '
        'archived, archive_id:1"; done; else\n' + LFS.partition("\n")[2] + "fi\n"
    )
    told = gridwright("layout", "check", str(spec), "--json").json["findings"]
    assert [each["name"] for each in told] == ["directory-layout-differs"]


def test_a_library_that_hangs_is_told_with_its_directory_in_time(tmp_path: Path) -> None:
    with hanging_mount(tmp_path / "hangs") as library:
        found = scan_library(run_here, str(library), seconds=0.5)
        assert found is not None
        (finding,) = LayoutFindings(found, str(library), 1, DesiredLayout(library="data")).all()
    assert finding.name == "layouts-unread"
    assert f"hangs in {library}" in finding.text
