"""How large files may be, and when a test is refused before it writes."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.filesystems.mounts import LibraryMount
from gridwright.iotest.options import IotestOptions
from gridwright.iotest.stream_plan import NotEnoughSpace, SpacePlan, plan_space

GIB = 1 << 30
BLOCK = 64 << 10


def mount(kind: str = "ext4") -> LibraryMount:
    return LibraryMount("/data", kind, "rw", "/dev/vdb", "vdb", None, None, None, None, 0, 0, 0)


def plan(
    monkeypatch: pytest.MonkeyPatch,
    options: IotestOptions,
    *,
    free: int,
    total: int | None = None,
    inodes: int = 1_000_000,
    kind: str = "ext4",
    streams: int = 4,
) -> SpacePlan:
    unit = 4096
    total = total if total is not None else free
    status = SimpleNamespace(
        f_bavail=free // unit, f_frsize=unit, f_blocks=total // unit, f_favail=inodes, f_files=inodes
    )
    monkeypatch.setattr(os, "statvfs", lambda _: status)
    return plan_space(Path("/data"), mount(kind), options, library="work", streams=streams)


def test_a_phase_by_time_uses_half_of_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    found = plan(monkeypatch, IotestOptions(), free=100 * GIB)
    assert found.file_bytes % BLOCK == 0
    assert found.file_bytes * 4 == pytest.approx(0.5 * 0.99 * 100 * GIB, rel=0.001)


def test_files_of_the_mixed_phase_come_on_top(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = plan(monkeypatch, IotestOptions(), free=100 * GIB)
    mixed = plan(monkeypatch, IotestOptions(phases=("write", "mixed")), free=100 * GIB)
    assert mixed.file_bytes == pytest.approx(alone.file_bytes * 4 / 6, rel=0.001)


def test_a_size_is_taken_as_it_is_up_to_a_whole_block(monkeypatch: pytest.MonkeyPatch) -> None:
    found = plan(monkeypatch, IotestOptions(size_bytes=BLOCK * 3 + 1), free=100 * GIB)
    assert found.file_bytes == 4 * BLOCK


@pytest.mark.parametrize(("size", "free"), [(10 * GIB, 39 * GIB), (3 * GIB, 11 * GIB)])
def test_a_size_that_does_not_fit_is_refused_with_both_figures(
    monkeypatch: pytest.MonkeyPatch, size: int, free: int
) -> None:
    with pytest.raises(NotEnoughSpace) as raised:
        plan(monkeypatch, IotestOptions(size_bytes=size), free=free)
    problem = raised.value.problem
    assert problem.where == "/data"
    assert "library work" in problem.what
    assert f"4 files need {4 * size // GIB} GiB" in problem.what
    assert "--size" in str(problem.remedy)


def test_one_percent_of_the_file_system_is_never_used(monkeypatch: pytest.MonkeyPatch) -> None:
    options = IotestOptions(size_bytes=25 * GIB)
    with pytest.raises(NotEnoughSpace):
        plan(monkeypatch, options, free=100 * GIB, total=1000 * GIB)
    with pytest.raises(NotEnoughSpace):
        plan(monkeypatch, IotestOptions(), free=5 * GIB, total=1000 * GIB)


def test_in_memory_a_quarter_of_what_is_available_is_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = SimpleNamespace(available=8 * GIB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    found = plan(monkeypatch, IotestOptions(), free=100 * GIB, kind="tmpfs")
    assert found.file_bytes * 4 == pytest.approx(GIB, rel=0.001)
    with pytest.raises(NotEnoughSpace):
        plan(monkeypatch, IotestOptions(size_bytes=GIB), free=100 * GIB, kind="tmpfs")


def test_ramfs_says_nothing_of_its_size_and_is_held_to_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = SimpleNamespace(available=8 * GIB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    found = plan(monkeypatch, IotestOptions(), free=0, inodes=0, kind="ramfs")
    assert found.file_bytes * 4 == pytest.approx(GIB, rel=0.001)
    assert found.small_files > 0


@pytest.mark.parametrize("inodes", [0, 64, 10_000])
def test_small_files_leave_half_of_the_inodes(monkeypatch: pytest.MonkeyPatch, inodes: int) -> None:
    found = plan(monkeypatch, IotestOptions(), free=100 * GIB, inodes=inodes or 10**9)
    assert found.small_files == (inodes // 2 // 4 if inodes else 100_000)


def test_the_null_engine_needs_no_space(monkeypatch: pytest.MonkeyPatch) -> None:
    assert plan(monkeypatch, IotestOptions(engine="null"), free=0).file_bytes > 1 << 50


@given(
    free=st.integers(4096, 1 << 45),
    streams=st.integers(1, 512),
    blocks=st.integers(1, 1024),
    mixed=st.booleans(),
)
def test_what_is_planned_always_fits(free: int, streams: int, blocks: int, mixed: bool) -> None:
    options = IotestOptions(
        block_bytes=blocks * 4096, phases=("write", "mixed") if mixed else ("write", "read")
    )
    with pytest.MonkeyPatch.context() as patch:
        try:
            found = plan(patch, options, free=free, streams=streams)
        except NotEnoughSpace:
            return
    files = streams + (-(-streams // 2) if mixed else 0)
    assert found.file_bytes % options.block_bytes == 0
    assert 0 < found.file_bytes * files <= free
    assert 0 <= found.small_files * streams * 4096 <= free
