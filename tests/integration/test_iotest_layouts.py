"""`iotest --layout`: two layouts side by side, with real files; a double of lfs keeps and obeys layouts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest

from gridwright.errors import ExitStatus
from gridwright.filesystems.layout import read_layout_text
from gridwright.iotest.options import TriedLayout
from gridwright.runs.iotest_events import LibraryBegun, RepeatBegun
from tests.support.command import Command, wait_until
from tests.support.fleet import GridTest
from tests.support.lfs_double import installed

QUICK = ("--phases", "write", "--size", "2MiB", "--streams", "1", "--allow-disturbed", "--repeat", "3")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A grid of one node, whose libraries data and work are on Lustre and util is on a disk."""
    (tmp_path / "grid.yaml").write_text(f"""\
name: lake
provider: local
filesystems:
  lake: {{type: lustre, path: {tmp_path}/lake, source: "10.0.0.10@tcp:/lake"}}
  disk: {{type: local, path: {tmp_path}/disk}}
libraries:
  data: {{filesystem: lake, layout: 1}}
  work: {{filesystem: disk}}
  util: {{filesystem: disk}}
""")
    for library in ("lake/data", "disk/work", "disk/util"):
        (tmp_path / library).mkdir(parents=True)
    command = [f"{tmp_path}/bin/lfs", "setstripe", "-c", "4", f"{tmp_path}/lake/data"]
    subprocess.run(command, env=os.environ | lustre(tmp_path), check=True, timeout=30)
    return tmp_path


def lustre(place: Path, **given: object) -> dict[str, str]:
    """The environment in which a double of lfs serves four OSTs; what is given is as it is from now on."""
    state = place / "bin/lfs-state.json"
    if not state.exists():
        installed(place / "bin", place / "lake", osts=4)
    state.write_text(json.dumps(json.loads(state.read_text()) | given))
    return {"PATH": f"{place / 'bin'}:{os.environ['PATH']}", "LFS_STATE": str(state)}


def layouts_of(document: Any) -> Any:
    (library,) = document["libraries"]
    return library["layouts"]


def test_a_slower_layout_is_seen_on_real_files(lake: Path) -> None:
    probe = lake / "probe"
    probe.mkdir()
    if subprocess.run(["chattr", "+S", str(probe)], capture_output=True, timeout=30, check=False).returncode:
        pytest.skip("the file system of the tests has no attribute S, by which the double slows files down")
    gridwright = Command(lake)
    slow = lustre(lake, waits=[1])
    # Three pairs tell too little where the machine has other work.
    tried = [*QUICK, "--repeat", "5", "--layout", "spec", "--json"]
    ended = gridwright("iotest", lake / "grid.yaml", *tried, environment=slow)
    assert ended.status == 0, ended.err
    assert "not tested: library work: on " in ended.text
    layouts = layouts_of(ended.json)
    assert (layouts["name"], layouts["text"]) == ("spec", "-c 1")
    assert layouts["default_found"]["text"] == "-c 4 -S 4M"
    assert layouts["chosen_found"]["text"] == "-c 1 -S 4M"
    assert layouts["chosen_found"]["components"][0]["osts"] == [0]
    (write,) = layouts["figures"]
    assert (len(write["default"]), write["ran"], write["differs"]) == (5, 5, True)
    assert write["high"] < 1
    assert "slower" in write["verdict"]
    (library,) = ended.json["libraries"]
    assert [phase["repeat"] for phase in library["phases"]] == [1, 2, 3, 4, 5]
    assert [phase["repeat"] for phase in layouts["phases"]] == [1, 2, 3, 4, 5]
    sides = [line.partition("files in ")[2] for line in ended.err.splitlines() if "files in " in line]
    own, chosen = "the library's own layout", "layout -c 1"
    assert sides == [own, chosen, chosen, own, own, chosen, chosen, own, own, chosen]
    assert list((lake / "lake" / "data").iterdir()) == []
    assert list((lake / "disk" / "work").iterdir()) == []
    shown = gridwright("runs", "show", "last")
    assert "write: the chosen layout is slower" in shown.out
    assert "chosen -c 1, of which a file had -c 1 -S 4M" in " ".join(shown.out.split())
    report = (gridwright.only_run() / "report.html").read_text()
    assert "the chosen layout is slower" in report


@pytest.mark.thorough
def test_the_same_layout_on_both_sides_shows_no_difference(lake: Path) -> None:
    gridwright = Command(lake)
    ended = gridwright(
        "iotest", lake / "grid.yaml", *QUICK, "--layout", "-c 9 -S 4M", "--json", environment=lustre(lake)
    )
    assert ended.status == 0, ended.err
    layouts = layouts_of(ended.json)
    assert layouts["chosen_found"]["text"] == "-c 4 -S 4M", "there are four targets"
    assert [each["differs"] for each in layouts["figures"]] == [False]
    assert "layouts-alike" in [each["name"] for each in ended.findings]


def test_a_stopped_comparison_keeps_what_it_measured_and_leaves_nothing(lake: Path) -> None:
    gridwright = Command(lake)
    flags = ("--phases", "write", "--seconds", "1", "--streams", "1", "--repeat", "9", "--layout", "1")
    with gridwright.start("iotest", lake / "grid.yaml", *flags, environment=lustre(lake)) as running:
        running.says("repeat 2 of 9")
        running.says("files in layout -c 1")
        running.signal(signal.SIGINT)
        ended = running.end()
    assert ended.status == 130, ended.err
    record = json.loads((gridwright.only_run() / "iotest.json").read_text())
    (library,) = record["libraries"]
    assert library["phases"][0]["status"] == "complete"
    assert library["layouts"]["phases"][0]["status"] == "complete"
    assert library["layouts"]["figures"][0]["verdict"].startswith("nothing can be told: ")
    assert list((lake / "lake" / "data").iterdir()) == []


def test_a_layout_that_hangs_is_stopped_at_once(lake: Path) -> None:
    gridwright = Command(lake)
    hangs = lustre(lake, hangs=60)
    with gridwright.start(
        "iotest", lake / "grid.yaml", *QUICK, "--layout", "2", environment=hangs
    ) as running:

        def asks() -> psutil.Process | None:
            found = running.worker().children()
            return next((each for each in found if "getstripe" in each.cmdline()), None)

        lfs = wait_until(asks, seconds=30, what="lfs", last=lambda: running.worker().children())
        running.signal(signal.SIGTERM)
        # A quiet machine needs a tenth of a second, and lfs itself would be given ten.
        ended = running.end(2.5)
    assert ended.status == 130, ended.err
    assert not lfs.is_running()
    assert "error" not in ended.err
    assert list((lake / "lake" / "data").iterdir()) == []


def test_a_refusal_of_the_servers_leaves_nothing(lake: Path) -> None:
    gridwright = Command(lake)
    refuses = lustre(lake, refuses="Operation not supported")
    ended = gridwright("iotest", lake / "grid.yaml", *QUICK, "--layout", "2", environment=refuses)
    assert ended.status == 3
    assert "was not set: lfs setstripe: cannot create composite file" in ended.text
    assert list((lake / "lake" / "data").iterdir()) == []


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--layout", "-c 2001"), "library data: a stripe count of 2001"),
        (("--layout", "-E 5000 -c 1 -E -1 -c 4"), "it ends at 5000 bytes"),
        (("--layout", "broad"), "broad is none of -E, -c"),
        (
            ("--layout", "4", "--repeat", "2"),
            "compared in pairs of tests, and 2 tell nothing",
        ),
        (("--layout", "4", "--keep"), "the files of a comparison of layouts are not kept"),
        (("--layout", "4", "--sweep"), "layouts are compared in pairs"),
        (
            ("--layout", "4", "--phases", "read"),
            "have to be written in each layout first",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_made(
    lake: Path, flags: tuple[str, ...], says: str
) -> None:
    gridwright = Command(lake)
    ended = gridwright("iotest", lake / "grid.yaml", *flags, environment=lustre(lake))
    assert ended.status == 2
    assert says in ended.text
    assert not gridwright.runs.exists()


def test_a_file_system_without_layouts_is_refused_before_anything_is_made(lake: Path) -> None:
    gridwright = Command(lake)
    text = (lake / "grid.yaml").read_text().replace("filesystem: lake, layout: 1", "filesystem: disk")
    (lake / "disk" / "data").mkdir()
    (lake / "grid.yaml").write_text(text)
    for words in ((lake / "grid.yaml",), ("--directory", lake / "disk" / "data")):
        ended = gridwright("iotest", *words, "--layout", "4", environment=lustre(lake))
        assert ended.status == 2
        assert "nobody chooses over which targets files lie" in ended.text
    assert not gridwright.runs.exists()
    assert list((lake / "disk" / "data").iterdir()) == []


@pytest.mark.thorough
def test_several_nodes_have_their_directories_laid_out(
    tmp_path: Path, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in lustre(lake).items():
        monkeypatch.setenv(name, value)
    library = lake / "lake" / "data"
    layout = TriedLayout("lustre", "2", read_layout_text("2"))
    test = GridTest(tmp_path, library, nodes=2, layout=layout)
    record, ended = test(size_bytes=1 << 20, streams=1, phases=("write", "read"), repeat=3, layout="2")
    assert ended == ExitStatus.DONE, record.findings
    (found,) = record.libraries
    assert found.layouts is not None
    assert found.layouts.default_found is not None
    assert found.layouts.chosen_found is not None
    assert found.layouts.default_found.text == "-c 4 -S 4M"
    assert found.layouts.chosen_found.text == "-c 2 -S 4M"
    assert [len(found.layouts.figures[0].default), len(found.layouts.figures)] == [3, 2]
    assert all({node.node for node in each.nodes} == {"node1", "node2"} for each in found.layouts.phases)
    order = [
        each.layout.chosen for each in test.seen.events if isinstance(each, LibraryBegun) and each.layout
    ]
    assert order == [False, True, True, False, False, True]
    assert sum(isinstance(each, RepeatBegun) for each in test.seen.events) == 3
    assert list(library.iterdir()) == []


def test_without_lfs_nothing_is_written(lake: Path) -> None:
    gridwright = Command(lake)
    ended = gridwright("iotest", lake / "grid.yaml", *QUICK, "--layout", "2", "--json")
    assert ended.status == 3
    assert "lfs cannot be started" in ended.text
    assert layouts_of(ended.json)["phases"] == []
    assert ended.json["libraries"][0]["phases"] == []
    assert list((lake / "lake" / "data").iterdir()) == []


def test_a_refusal_on_nodes_ends_the_test_and_leaves_nothing(
    tmp_path: Path, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in lustre(lake, refuses="Operation not supported").items():
        monkeypatch.setenv(name, value)
    library = lake / "lake" / "data"
    test = GridTest(tmp_path, library, nodes=2, layout=TriedLayout("lustre", "2", read_layout_text("2")))
    record, ended = test(size_bytes=1 << 20, streams=1, phases=("write",), repeat=3, layout="2")
    assert ended == ExitStatus.ENVIRONMENT
    assert any("was not set" in each.text for each in record.findings)
    assert len(record.libraries[0].phases) == 1
    assert list(library.iterdir()) == []
