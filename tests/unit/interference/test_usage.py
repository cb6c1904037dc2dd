"""Who used what, by processes that come, go and change parents, on a /proc of the test's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from gridwright.interference.processes import TICK_S, Ownership
from gridwright.interference.usage import Usage, UsedSoFar

OURS, FOREIGN_SHELL, INIT, KTHREADD = 100, 200, 1, 2
KERNEL = 0x00200000


@dataclass
class World:
    """Processes of a machine; `look` accounts for what changed since the last one."""

    proc: Path

    def __post_init__(self) -> None:
        self.now = 0.0
        self.usage = Usage(Ownership([OURS]), proc=self.proc, sees_traffic=True)
        self.process(INIT, "init")
        self.process(KTHREADD, "kthreadd", flags=KERNEL)
        self.process(OURS, "gridwright", INIT)
        self.process(FOREIGN_SHELL, "bash", INIT)
        self.look()

    def process(
        self,
        pid: int,
        name: str,
        parent: int = 0,
        *,
        own: int = 0,
        waited: int = 0,
        flags: int = 0,
        moved: int = 0,
    ) -> None:
        directory = self.proc / str(pid)
        directory.mkdir(exist_ok=True)
        fields = [0] * 50
        fields[1], fields[6], fields[11], fields[13], fields[19] = parent, flags, own, waited, pid
        (directory / "stat").write_text(f"{pid} ({name}) S {' '.join(map(str, fields[1:]))}\n")
        (directory / "io").write_text(f"read_bytes: {moved}\nwrite_bytes: 0\n")
        (directory / "cmdline").write_bytes(b"")

    def end(self, pid: int) -> None:
        for file in (self.proc / str(pid)).iterdir():
            file.unlink()
        (self.proc / str(pid)).rmdir()

    def look(self) -> UsedSoFar:
        self.now += 1.0
        return self.usage.look(self.now)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_what_there_was_before_the_watch_counts_for_nobody(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert world.look() == UsedSoFar()


def test_a_process_of_others_is_named_and_ours_is_not(world: World) -> None:
    world.process(OURS, "gridwright", INIT, own=50)
    world.process(101, "worker", OURS, own=70)
    world.process(201, "burner", FOREIGN_SHELL, own=30)
    used = world.look()
    assert (used.own_s, used.foreign_s) == pytest.approx((120 * TICK_S, 30 * TICK_S))
    assert [(each.name, each.pid) for each in used.groups] == [("burner", 201)]


def test_a_process_that_init_adopts_stays_ours(world: World) -> None:
    world.process(101, "launch", OURS, own=10)
    world.look()
    world.process(101, "launch", INIT, own=60)
    assert world.look().own_s == pytest.approx(60 * TICK_S)
    assert world.look().foreign_s == 0


def test_children_that_ended_between_two_looks_count_once_for_who_waited(world: World) -> None:
    world.process(201, "make", FOREIGN_SHELL, own=5)
    world.process(202, "cc1", 201, own=40)
    world.look()
    world.end(202)
    # It had used 45 when it ended, another one that nobody saw 30.
    world.process(201, "make", FOREIGN_SHELL, own=6, waited=75)
    assert world.look().foreign_s == pytest.approx((6 + 45 + 30) * TICK_S)


def test_what_an_orphan_had_used_is_not_counted_again_for_init(world: World) -> None:
    world.process(201, "make", FOREIGN_SHELL, own=5)
    world.process(202, "cc1", 201, own=40)
    world.look()
    world.end(202)
    world.end(201)
    world.process(FOREIGN_SHELL, "bash", INIT, waited=5)
    world.process(INIT, "init", waited=40)
    assert world.look().foreign_s == pytest.approx(45 * TICK_S)


def test_traffic_of_a_child_that_was_waited_for_counts_once(world: World) -> None:
    world.process(201, "make", FOREIGN_SHELL)
    world.process(202, "tar", 201, moved=1_000_000)
    world.look()
    world.end(202)
    world.process(201, "make", FOREIGN_SHELL, moved=1_200_000)
    assert world.look().foreign_bytes == (1_200_000, 0)


@pytest.mark.parametrize("name", ["kworker/u8:1-loop3", "jbd2/vda1-8", "kswapd0", "ksoftirqd/0"])
def test_kernel_threads_are_not_foreign(world: World, name: str) -> None:
    world.process(50, name, KTHREADD, own=90, flags=KERNEL)
    used = world.look()
    assert used.foreign_s == 0
    assert used.kernel_s == pytest.approx(90 * TICK_S)


def test_what_a_resync_moves_is_foreign_and_named(world: World) -> None:
    world.process(50, "md127_resync", KTHREADD, flags=KERNEL)
    world.process(51, "kworker/0:1", KTHREADD, flags=KERNEL)
    world.look()
    world.process(50, "md127_resync", KTHREADD, flags=KERNEL, own=3, moved=5_000_000)
    world.process(51, "kworker/0:1", KTHREADD, flags=KERNEL, own=3, moved=9_000_000)
    used = world.look()
    assert used.foreign_bytes == (5_000_000, 0)
    assert [each.name for each in used.groups] == ["md127_resync"]


def test_a_process_with_the_runs_token_is_ours_with_all_below_it(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.usage.ownership.tokens = ("/state/workload/ab12",)
    world.process(300, "python3", INIT)
    (tmp_path / "300" / "cmdline").write_bytes(b"python3\0-m\0job\0/state/workload/ab12/0001.request.json\0")
    world.process(301, "sort", 300)
    world.look()
    world.process(301, "sort", 300, own=25)
    assert world.look().own_s == pytest.approx(25 * TICK_S)


def test_a_name_tells_what_an_interpreter_runs_and_no_other_argument(world: World, tmp_path: Path) -> None:
    world.process(201, "python3.11", FOREIGN_SHELL, own=9)
    (tmp_path / "201" / "cmdline").write_bytes(b"python3.11\0-u\0/opt/site/backup.py\0--password\0secret\0")
    world.process(202, "sh", FOREIGN_SHELL, own=9)
    (tmp_path / "202" / "cmdline").write_bytes(b"sh\0-c\0curl -u me:secret\0")
    names = {each.name for each in world.look().groups}
    assert names == {"python3.11 backup.py", "sh"}
