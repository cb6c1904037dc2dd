"""Trials of a shared file system: real parts in processes of their own, on directories shared or not."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.doctor.check import Tried
from gridwright.doctor.messages import ORDERS, Append, Begin, Look, TrialOrder, Write
from gridwright.doctor.probes import pairs as probe_pairs
from gridwright.doctor.probes import pairs as probe_trials
from gridwright.doctor.probes.node import PREFIX, count_records, record
from gridwright.doctor.probes.pairs import PROBES, Channel, NoAnswer, Refused, trials
from gridwright.spec import parse_spec
from tests.support.doctor_grid import grid, node, sound


def channels(*prefix: str) -> tuple[Channel, Channel]:
    return Channel("compute1", PROBES), Channel("compute2", [*prefix, *PROBES])


def tried(directory: Path, one: Channel, two: Channel) -> list[Tried]:
    with one, two:
        one.ready()
        two.ready()
        return list(trials("shared", directory, one, two))


@pytest.fixture(autouse=True)
def _nothing_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    assert list(tmp_path.rglob(f"{PREFIX}*")) == []


def test_two_nodes_of_a_sound_file_system_find_nothing(tmp_path: Path) -> None:
    found = tried(tmp_path, *channels())
    assert [each.trial for each in found] == ["seen", "read", "rename", "flock", "fcntl", "append"]
    assert [each.wrong for each in found] == [None] * 6
    assert {each.nodes for each in found} == {("compute1", "compute2")}


class Elsewhere(Channel):
    """A node that has another file system in the place of the shared one."""

    def __init__(self, node: str, command: Sequence[str], place: Path) -> None:
        super().__init__(node, command)
        self._place = place

    def tell(self, order: TrialOrder) -> None:
        super().tell(replace(order, directory=str(self._place)) if isinstance(order, Begin) else order)


def test_a_node_with_another_file_system_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one, two = Channel("compute1", PROBES), Elsewhere("compute2", PROBES, tmp_path / "two")
    (found,) = tried(tmp_path / "one", one, two)
    assert found.trial == "seen"
    assert found.wrong == "compute2 has not seen for 1.5 s what compute1 made"


class Forgetful(Channel):
    """A node whose file system keeps what it read, lets every lock pass, or loses what is appended."""

    fault = ""

    def order_result(self) -> bool | float | str | dict[str, int]:
        answer = super().order_result()
        if self.fault == "old" and answer == "other":
            return "first"
        return True if self.fault == "locks" and answer is False else answer

    def tell(self, order: TrialOrder) -> None:
        lossy = self.fault == "lost" and isinstance(order, Append)
        super().tell(replace(order, records=190) if lossy and isinstance(order, Append) else order)


@pytest.mark.parametrize(
    ("fault", "wrong"),
    [
        ("old", {"read": "compute2 has not seen for 1.5 s what compute1 had written and closed"}),
        (
            "locks",
            {
                "flock": "compute2 got the lock that compute1 held",
                "fcntl": "compute2 got the lock that compute1 held",
            },
        ),
        ("lost", {"append": "of 400 records 10 are lost, and 0 pieces are torn"}),
    ],
)
def test_what_a_broken_file_system_does_is_found(tmp_path: Path, fault: str, wrong: dict[str, str]) -> None:
    two = Forgetful("compute2", PROBES)
    two.fault = fault
    found = tried(tmp_path, Channel("compute1", PROBES), two)
    assert {each.trial: each.wrong for each in found if each.wrong} == wrong


@pytest.mark.root
def test_locks_that_stay_on_their_node_are_found_on_a_real_file_system(tmp_path: Path) -> None:
    """Both see the same files, one of them through FUSE, whose locks the file system below does not see."""
    below, above = tmp_path / "below", tmp_path / "above"
    below.mkdir()
    above.mkdir()
    subprocess.run(["bindfs", str(below), str(above)], check=True, timeout=20)
    try:
        two = Elsewhere("compute2", PROBES, above)
        wrong = {each.trial for each in tried(below, Channel("compute1", PROBES), two) if each.wrong}
    finally:
        subprocess.run(["umount", str(above)], check=True, timeout=20)
    assert {"flock", "fcntl"} <= wrong


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_part_that_is_told_to_stop_takes_its_files_away(tmp_path: Path, number: signal.Signals) -> None:
    with Channel("compute1", PROBES) as part:
        part.ready()
        part.ask(Begin(str(tmp_path), "t", owner=True))
        part.ask(Write("a", "b"))
        assert len(list(tmp_path.iterdir())) == 1
        os.kill(part._process.pid, number)
        with pytest.raises(NoAnswer):
            part.order_result()


def test_a_part_whose_master_was_killed_takes_its_files_away(tmp_path: Path) -> None:
    """As ssh does: the end of its input is the end of its orders."""
    part = subprocess.Popen(PROBES, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert part.stdin is not None and part.stdout is not None
    part.stdin.write(ORDERS.encode(Begin(str(tmp_path), "t", owner=True)) + b"\n")
    part.stdin.flush()
    part.stdout.readline()
    part.stdout.readline()
    assert len(list(tmp_path.iterdir())) == 1
    part.stdout.close()
    part.stdin.close()
    assert part.wait(20) == 0


def test_what_a_machine_that_stopped_had_left_is_taken_away(tmp_path: Path) -> None:
    stale, fresh = tmp_path / f"{PREFIX}old", tmp_path / f"{PREFIX}new"
    for path in (stale, fresh):
        path.mkdir()
    os.utime(stale, (time.time() - 3600, time.time() - 3600))
    tried(tmp_path, *channels())
    assert not stale.exists() and fresh.exists()
    fresh.rmdir()


def test_a_part_that_cannot_do_its_part_says_why(tmp_path: Path) -> None:
    with Channel("compute1", PROBES) as part:
        part.ready()
        with pytest.raises(Refused, match="No such file"):
            part.ask(Begin(str(tmp_path / "none"), "t", owner=True))
        with pytest.raises(Refused, match="no directory"):
            part.ask(Look())
        assert part._process.stdin is not None
        part._process.stdin.write(b'{"do": "dance"}\n')
        part._process.stdin.flush()
        with pytest.raises(Refused, match="do: 'dance' is not known; there are begin, see"):
            part.order_result()
        part.compare_clocks()
        assert part.clock_off_s == 0.0


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["sh", "-c", "echo 'Permission denied (publickey)' >&2; exit 255"], "Permission denied"),
        (["sh", "-c", "exit 1"], "its part ended"),
        (["no-such-ssh"], "cannot be started"),
    ],
)
def test_a_node_that_cannot_be_reached_for_trials_says_why(command: list[str], said: str) -> None:
    with pytest.raises(NoAnswer, match=said.replace("(", "\\(")), Channel("compute1", command) as part:
        part.ready()


def test_a_part_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridwright.doctor.probes.pairs.START_S", 0.3)
    monkeypatch.setattr("gridwright.doctor.probes.pairs._END_S", 0.3)
    began = time.monotonic()
    with (
        pytest.raises(NoAnswer, match="compute1 has not answered"),
        Channel("compute1", ["sh", "-c", "trap '' TERM; echo Welcome; sleep 30 & wait"]) as part,
    ):
        part.ready()
    assert time.monotonic() - began < 5


SHARED = """
provider: lab
nodes: {{compute: {{count: {count}}}}}
filesystems: {{shared: {{type: moosefs, path: {path}}}}}
libraries: {{data: {{path: .}}}}
scheduler: {{type: ssh}}
"""


@pytest.mark.parametrize("count", [2, 3, 4])
def test_every_node_of_a_grid_takes_part_and_has_its_clock_compared(tmp_path: Path, count: int) -> None:
    names = [f"compute{number}" for number in range(1, count + 1)]
    spec = parse_spec(SHARED.format(count=count, path=tmp_path))
    found = probe_pairs.probe_pairs(
        grid(*(node(name) for name in names), spec=spec), lambda _, command: command
    )
    assert found is not None and found.untried == {}
    assert {each.wrong for each in found.tried} == {None}
    assert {name for each in found.tried for name in each.nodes} == set(names)
    assert found.clock_offsets_s == dict.fromkeys(names, 0.0)


def test_a_node_is_connected_to_once_for_all_its_trials_and_leaves_nothing(tmp_path: Path) -> None:
    names = [f"compute{number}" for number in range(1, 6)]
    spec = parse_spec(SHARED.format(count=5, path=tmp_path))
    connected: list[str] = []

    def attach(name: str, command: Sequence[str]) -> Sequence[str]:
        connected.append(name)
        return command

    found = probe_pairs.probe_pairs(grid(*(node(name) for name in names), spec=spec), attach)
    assert found is not None and found.untried == {}
    assert len({each.nodes for each in found.tried}) == 4, "a chain: inner nodes are in two pairs"
    assert {each.wrong for each in found.tried} == {None}
    assert sorted(connected) == names
    assert list(tmp_path.iterdir()) == []


def test_a_node_whose_trial_failed_is_connected_to_anew_for_its_next(tmp_path: Path) -> None:
    names = ["compute1", "compute2", "compute3"]
    spec = parse_spec(SHARED.format(count=3, path=tmp_path))
    connected: list[str] = []

    def attach(name: str, command: Sequence[str]) -> Sequence[str]:
        connected.append(name)
        return command if name != "compute1" else ["sh", "-c", "exit 255"]

    found = probe_pairs.probe_pairs(grid(*(node(name) for name in names), spec=spec), attach)
    assert found is not None
    assert list(found.untried) == [("compute1", "compute2")]
    assert {each.nodes for each in found.tried} == {("compute2", "compute3")}
    assert {each.wrong for each in found.tried} == {None}
    assert connected.count("compute2") == 2


def test_nodes_that_cannot_write_to_a_library_are_left_out(tmp_path: Path) -> None:
    spec = parse_spec(SHARED.format(count=2, path=tmp_path))
    seen = grid(node("compute1"), node("compute2", sound(hangs=True)), spec=spec)
    assert probe_pairs.probe_pairs(seen, lambda _, command: command) is None


def test_a_node_that_is_lost_between_the_rounds_is_told(tmp_path: Path) -> None:
    spec = parse_spec(SHARED.format(count=2, path=tmp_path))

    def attach(name: str, command: Sequence[str]) -> Sequence[str]:
        return command if name == "compute1" else ["sh", "-c", "echo 'Connection refused' >&2; exit 255"]

    found = probe_pairs.probe_pairs(grid(node("compute1"), node("compute2"), spec=spec), attach)
    assert found is not None
    assert found.untried == {("compute1", "compute2"): "compute2: Connection refused"}


@given(st.lists(st.integers(1, 5000), unique=True, max_size=300).map(sorted))
def test_pairs_hold_every_node_and_are_few(numbers: list[int]) -> None:
    nodes = [f"compute{number}" for number in numbers]
    found = probe_pairs.pairs(nodes)
    assert len(found) <= len(nodes)
    if len(nodes) > 1:
        assert {name for pair in found for name in pair} == set(nodes)
    assert len(set(found)) == len(found)


@given(st.binary(max_size=4000))
def test_whatever_is_in_the_file_is_counted(data: bytes) -> None:
    found = count_records(data)
    assert found[""] <= len(data) // 512 + 1


def test_whole_records_are_told_from_torn_ones() -> None:
    whole = record("one", 1) + record("two", 1) + record("one", 2)
    assert count_records(whole) == {"": 0, "one": 2, "two": 1}
    torn = whole[:700] + whole[800:]
    assert count_records(torn)[""] > 0
    assert probe_trials.RECORDS * 2 == 400
