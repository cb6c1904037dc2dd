"""The record of a lab: whole or not there, and never a reason to signal somebody else's process."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gridwright.cli.build.lab import chosen_lab
from gridwright.errors import ExitStatus, GridwrightError
from gridwright.kernel_files import boot_id
from gridwright.providers.lab import record, teardown
from gridwright.providers.lab.layout import layout_of
from gridwright.providers.lab.namespaces import MemberGroups, ProcessId, identify, kill
from gridwright.providers.lab.provider import LAB, take_away, up
from gridwright.providers.lab.record import (
    LabRecord,
    NodeRecord,
    differences,
    digest,
    keep_copy,
    locked,
    read,
    record_for,
    write,
)
from gridwright.providers.lab.status import refuse_unknown
from gridwright.providers.provider import Caller
from gridwright.spec.load import load_spec
from gridwright.spec.model import GridSpec
from tests.unit.providers.lab_specs import spec


def is_gone(process: ProcessId, *, within: float) -> bool:
    """Whether a process ends within some seconds."""
    deadline = time.monotonic() + within
    while process.alive and time.monotonic() < deadline:
        time.sleep(0.005)
    return not process.alive


@pytest.fixture(autouse=True)
def labs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Labs are kept below the test's own directory."""
    directory = tmp_path / "labs"
    monkeypatch.setattr(record, "LABS", directory)
    monkeypatch.setattr(record, "LABS", directory)
    return directory


@pytest.fixture
def sleeper() -> Iterator[ProcessId]:
    process = subprocess.Popen(["sleep", "60"])
    yield identify(process.pid)
    process.kill()
    process.wait(10)


def made(wanted: GridSpec, **fields: object) -> LabRecord:
    layout = layout_of(wanted)
    whole = LabRecord(
        lab=wanted.name,
        phase="up",
        boot=boot_id(),
        spec_file="",
        digest=digest(wanted),
        network=layout.network,
        image="/image",
        started=1.5,
        nodes=tuple(NodeRecord(plan) for plan in layout.nodes),
    )
    return replace(whole, **fields)  # type: ignore[arg-type]


def test_a_record_is_read_as_it_was_written(labs: Path) -> None:
    groups = MemberGroups("v1", ("/a/x",), ("/a/x",), ("cpu,cpuacct",))
    whole = made(
        spec(), anchor=ProcessId(5, 6), anchor_groups=groups, group_tops=("/a",), cgroups=("v1", ("cpu",))
    )
    whole = whole.with_node(replace(whole.nodes[1], process=ProcessId(7, 8), groups=groups, partitioned=True))
    write(whole)
    assert read("small") == whole
    file = labs / "small" / "lab.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert [path.name for path in file.parent.iterdir()] == ["lab.json"]


def test_no_record_is_no_lab() -> None:
    assert read("small") is None
    assert record.labs() == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"schema": 99}', b'{"schema": 1}', b"\xff"])
def test_a_record_that_cannot_be_read_is_said_so(labs: Path, content: bytes) -> None:
    (labs / "small").mkdir(parents=True)
    (labs / "small" / "lab.json").write_bytes(content)
    with pytest.raises(GridwrightError) as caught:
        read("small")
    assert caught.value.status == ExitStatus.ENVIRONMENT
    assert str(labs / "small") in str(caught.value)


def test_a_process_with_the_same_number_and_another_start_is_not_ours(sleeper: ProcessId) -> None:
    earlier = ProcessId(sleeper.pid, sleeper.started - 1)
    assert not earlier.alive
    kill(earlier)
    assert not is_gone(sleeper, within=0.2)


def test_a_process_of_ours_is_killed_and_then_counts_as_gone_before_it_is_waited_for(
    sleeper: ProcessId,
) -> None:
    kill(sleeper)
    assert is_gone(sleeper, within=10)
    assert Path(f"/proc/{sleeper.pid}").exists()
    kill(sleeper)


def test_a_process_whose_name_looks_like_the_fields_after_it(tmp_path: Path) -> None:
    program = tmp_path / ") Z 1 2 (x"
    program.symlink_to("/bin/sleep")
    process = subprocess.Popen([program, "60"])
    try:
        found = identify(process.pid)
        assert found.alive
        assert found.started > identify(os.getpid()).started
    finally:
        process.kill()
        process.wait(10)


def test_a_lab_is_up_only_while_its_anchor_runs_in_this_boot(sleeper: ProcessId) -> None:
    whole = made(spec(), anchor=sleeper)
    assert whole.is_up
    assert not replace(whole, boot="another").is_up
    assert not replace(whole, phase="starting").is_up
    assert not replace(whole, anchor=None).is_up
    kill(sleeper)
    assert is_gone(sleeper, within=10)
    assert not whole.is_up


def test_two_commands_do_not_change_a_lab_at_the_same_time(labs: Path) -> None:
    order = []

    def second() -> None:
        with locked("small"):
            order.append("second")

    with locked("small"):
        (labs / "small").mkdir()
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.2)
        order.append("first")
        # As down does at its end: the lock's file goes with the lab.
        (labs / "small").rmdir()
    thread.join(10)
    assert order == ["first", "second"]
    assert list(labs.iterdir()) == []


def test_what_differs_from_the_spec_of_a_lab_is_named_by_field() -> None:
    before = spec()
    write(made(before))
    keep_copy(before)
    whole = read("small")
    assert whole is not None
    assert differences(whole, before) == []
    # Only planning and proofs read it.
    assert differences(whole, spec(libraries={"data": {"requires": "1 MB/s/core"}, "work": {}})) == []
    other = spec(nodes={"compute": {"count": 4}}, lab={"network": "10.80.0.0/24"})
    count, lab = differences(whole, other)
    assert count == "nodes.compute.count is 3 in the lab and 4 in the spec"
    assert lab.startswith('lab is null in the lab and {"network": "10.80.0.0/24"')


GRID = """\
name: one
provider: lab
nodes: {compute: {count: 1}}
filesystems: {disk: {type: local, path: /mnt/a}}
scheduler: {type: ssh}
"""


def spec_in(directory: Path, name: str = "grid.yaml") -> GridSpec:
    directory.mkdir(exist_ok=True)
    (directory / name).write_text(GRID)
    return load_spec(directory / name)


@pytest.fixture
def first(tmp_path: Path) -> GridSpec:
    """A spec, with the record of a lab that was made from it."""
    first = spec_in(tmp_path / "first")
    write(made(first, spec_file=str(first.file)))
    return first


def test_a_lab_of_another_directory_s_spec_is_refused_by_all_that_would_use_it(
    first: GridSpec, tmp_path: Path
) -> None:
    second = spec_in(tmp_path / "second")
    uses: list[Callable[[], object]] = [
        lambda: up(second, Caller()),
        lambda: LAB.removal(second),
        lambda: LAB.status(second),
        lambda: LAB.head_node(second),
        lambda: chosen_lab(second.file),
    ]
    for use in uses:
        with pytest.raises(GridwrightError) as caught:
            use()
        (problem,) = caught.value.problems
        assert problem.what.endswith(f"it was made from {first.file}")
        assert problem.where == str(second.file)
        assert str(problem.remedy).endswith(f"gridwright down {first.file}")
    assert read("one") is not None


def test_a_lab_stays_its_own_by_another_path_and_in_a_copy_beside_it(first: GridSpec, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "first")
    for same in (first, spec_in(tmp_path / "link"), spec_in(tmp_path / "first", "copy.yaml")):
        assert record_for(same) is not None


@pytest.mark.parametrize("change", ["gone", "renamed"])
def test_a_lab_whose_spec_went_or_names_another_one_is_not_lost(
    change: str, first: GridSpec, tmp_path: Path
) -> None:
    second = spec_in(tmp_path / "second")
    assert first.file is not None
    first.file.write_text(GRID.replace("one", "two"))
    if change == "gone":
        first.file.unlink()
    assert record_for(second) is not None


def test_a_spec_that_cannot_be_read_still_has_its_lab(first: GridSpec, tmp_path: Path) -> None:
    second = spec_in(tmp_path / "second")
    assert first.file is not None
    first.file.write_text("name: [")
    with pytest.raises(GridwrightError):
        record_for(second)


def test_who_was_up_has_data_whatever_became_of_it(sleeper: ProcessId) -> None:
    whole = made(spec(), anchor=sleeper)
    assert whole.standing == "up"
    starting = replace(whole, phase="starting")
    assert starting.standing == "half-made"
    again = replace(starting, was_up=True)
    for stopped in (replace(whole, anchor=None), replace(whole, boot="another"), again):
        assert stopped.standing == "stopped"
    assert replace(again, phase="stopping").standing == "stopped", "all files are there"
    assert replace(again, phase="removing").standing == "half-removed"
    assert replace(starting, phase="removing").standing == "half-made"


def test_a_record_of_an_earlier_boot_has_no_processes(sleeper: ProcessId) -> None:
    """Their numbers, and even the ticks of their starts, may be those of others."""
    whole = made(spec(), anchor=sleeper, power=sleeper, boot="another")
    write(whole.with_node(replace(whole.nodes[0], process=sleeper, partitioned=True)))
    found = read(whole.lab)
    assert found is not None
    assert (found.anchor, found.power, found.processes()) == (None, None, [])
    assert not any(node.up or node.partitioned for node in found.nodes)


@pytest.mark.parametrize(
    ("phase", "standing"), [("starting", "half-made"), ("up", "stopped"), ("stopping", "half-removed")]
)
def test_a_record_of_the_first_schema_is_read(labs: Path, phase: str, standing: str) -> None:
    """There, a lab that began to stop may have lost files."""
    whole = made(spec())
    write(whole)
    file = labs / whole.lab / "lab.json"
    data = json.loads(file.read_text()) | {"schema": 1, "phase": phase}
    del data["was_up"]
    file.write_text(json.dumps(data))
    found = read(whole.lab)
    assert found is not None
    assert found.standing == standing


UNCLEAR: dict[str, Callable[[str], str | None]] = {
    "another release's": lambda text: text.replace('"schema": 2', '"schema": 3'),
    "empty": lambda _: "",
    "half": lambda text: text[: len(text) // 2],
    "gone": lambda _: None,
}


@pytest.mark.parametrize("unclear", UNCLEAR)
def test_up_deletes_nothing_where_the_record_is_unclear(labs: Path, unclear: str) -> None:
    wanted = spec()
    write(made(wanted))
    file = labs / wanted.name / "lab.json"
    data = labs / wanted.name / "nodes/compute1/upper/kept"
    data.parent.mkdir(parents=True)
    data.write_text("kept")
    text = UNCLEAR[unclear](file.read_text())
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
    with pytest.raises(GridwrightError) as caught:
        up(wanted, Caller())
    (problem,) = caught.value.problems
    assert str(labs / wanted.name) in str(problem.where)
    assert "remove" not in str(problem.remedy), "a remedy that deletes is no remedy"
    assert data.read_text() == "kept"
    if text is not None:
        with pytest.raises(GridwrightError):
            take_away(wanted.name)
        assert data.read_text() == "kept"


def test_a_link_to_a_disk_that_is_not_mounted_is_no_place_for_a_new_lab(labs: Path, tmp_path: Path) -> None:
    labs.mkdir()
    (labs / "small").symlink_to(tmp_path / "unmounted" / "small")
    with pytest.raises(GridwrightError, match="has its files elsewhere, and they are not there"):
        up(spec(), Caller())
    assert not (tmp_path / "unmounted").exists()


def test_a_record_that_was_being_written_is_no_lab(labs: Path) -> None:
    (labs / "small").mkdir(parents=True)
    (labs / "small" / ".lab.json.part").write_text("{")
    refuse_unknown("small")


def test_down_leaves_what_is_mounted_in_a_lab(labs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files would go, too, and are none of the lab's."""
    mounted = labs / "small" / "filesystems" / "shared"
    mounted.mkdir(parents=True)
    monkeypatch.setattr(teardown, "mounts_below", lambda _: [str(mounted)])
    with pytest.raises(GridwrightError, match="left of lab small: mount"):
        take_away("small")
    assert mounted.is_dir()
