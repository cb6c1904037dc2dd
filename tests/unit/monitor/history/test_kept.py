"""What was sampled is told again at each width of steps: the same bytes, gaps as gaps, in a bounded size."""

from __future__ import annotations

import math
from array import array
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.monitor.history import reading
from gridwright.monitor.history import store as stores
from gridwright.monitor.history.measured import SAMPLER, MeasuredSecond, Measurements
from gridwright.monitor.history.questions import NodeCourse, RangeQuestion
from gridwright.monitor.history.reading import StoredHistories
from gridwright.monitor.history.steady import HistoryWriter
from gridwright.monitor.history.store import (
    LEVELS,
    BlockColumn,
    HistoryLevel,
    Labels,
    SpoiltPiece,
    decode,
    encode,
)
from gridwright.monitor.libraries import Standing, WatchedLibrary
from gridwright.monitor.readings import Key, MountedPlace, Reading, Snapshot
from tests.unit.monitor.history.nodes import DISK, MEMORY, START, SampledNode

NEAR = 1 / 1000
"""What rates are kept to: each level rounds those of the one before once more."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "n1.history"


def course(
    file: Path, start: float, end: float, step: float, *, by: tuple[str, ...] | None = None
) -> NodeCourse:
    (found,) = StoredHistories({"n1": file}).courses(
        RangeQuestion((DISK[0], MEMORY[0]), start, end, step, by)
    )
    assert found.absent == ""
    return found


def written(file: Path, seconds: int, node: SampledNode | None = None) -> list[float]:
    """A node that reads more each second, with a burst now and then; what it read in each second."""
    node, moved = node or SampledNode(), []
    with HistoryWriter(file) as writer:
        for number in range(seconds + 1):
            bytes_read = 1e6 + 1000.0 * number + (5e7 if number % 97 == 0 else 0.0)
            writer.add(node.sample({DISK: bytes_read}, {MEMORY: float(number)}))
            writer.work()
            moved.append(bytes_read)
            node.passes()
    return moved


@pytest.fixture(scope="module")
def three_hours(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[float]]:
    file = tmp_path_factory.mktemp("kept") / "n1.history"
    return file, written(file, 3 * 3600)


@pytest.mark.few(2)
@pytest.mark.parametrize("step", [1, 10, 60, 600])
def test_each_width_of_steps_tells_the_same_bytes_and_the_highest_second(
    three_hours: tuple[Path, list[float]], step: int
) -> None:
    seconds, (file, moved) = 3 * 3600, three_hours
    found = course(file, START, START + seconds, step)
    # Seconds are kept for an hour, and a little more until the next level has them.
    width = max(step, 10) if step == 1 else step
    assert (found.start_s, found.step_s) == (START, width)
    disk, memory = found.series
    for number, (mean, high) in enumerate(zip(disk.values, disk.highest, strict=True)):
        # The first sample has nothing before it.
        those = moved[max(1, number * width) : (number + 1) * width]
        assert mean == pytest.approx(sum(those) / len(those), rel=NEAR)
        assert high == pytest.approx(max(those), rel=NEAR)
    assert memory.values[-1] == pytest.approx(seconds - (width + 1) / 2, rel=1e-3)


def test_the_last_hour_is_there_by_the_second(three_hours: tuple[Path, list[float]]) -> None:
    file, moved = three_hours
    end = START + 3 * 3600
    found = course(file, end - 3600, end, 1)
    assert found.step_s == 1
    assert found.series[0].values == pytest.approx(moved[-3601:-1], rel=NEAR)


def test_a_node_that_was_off_leaves_a_gap_and_what_is_round_it_is_right(file: Path) -> None:
    node = SampledNode()
    first = written(file, 100, node)
    node.passes(1000)
    node.counters[DISK] += 1e15
    second = written(file, 100, node)
    disk = course(file, START, START + 1300, 1).series[0]
    known = {number for number, value in enumerate(disk.values) if value is not None}
    assert known == {*range(1, 101), *range(1102, 1202)}
    assert disk.values[50] == pytest.approx(first[50], rel=NEAR)
    assert disk.values[1150] == pytest.approx(second[49], rel=NEAR)
    coarse = course(file, START, START + 1300, 60).series[0]
    assert coarse.values[5:18] == (None,) * 13
    assert coarse.values[1] == pytest.approx(sum(first[60:101]) / 41, rel=NEAR)


def test_a_clock_that_is_set_back_or_far_ahead_drops_nothing_and_makes_no_rates(file: Path) -> None:
    node, seconds = SampledNode(), 200
    with HistoryWriter(file) as writer:
        for number in range(4 * seconds):
            clock = {seconds: -30.0, 2 * seconds: 20 * 365 * 86400.0, 3 * seconds: -20 * 365 * 86400.0}
            writer.add(node.sample({DISK: 2e6}))
            writer.work()
            node.passes(1, clock=clock.get(number, 0.0))
    known = [value for value in course(file, START, START + 1000, 1).series[0].values if value is not None]
    assert len(known) >= 3 * seconds - 35
    assert all(value == pytest.approx(2e6, rel=NEAR) for value in known)
    future = course(file, START + 20 * 365 * 86400, START + 20 * 365 * 86400 + 1000, 1).series[0].values
    assert sum(value is not None for value in future) >= seconds - 5


def test_labels_that_nobody_asked_for_are_summed_where_they_are_kept(file: Path) -> None:
    node, other = SampledNode(), (DISK[0], "sdb")
    with HistoryWriter(file) as writer:
        for _ in range(30):
            writer.add(node.sample({DISK: 3e6, other: 5e6}))
            node.passes()
    (total,) = course(file, START + 10, START + 20, 1, by=()).series
    assert total.labels == ()
    assert total.values[5] == pytest.approx(8e6, rel=NEAR)
    assert len(course(file, START + 10, START + 20, 1, by=("device",)).series) == 2
    for only, labels in (
        ((("device", "sdb"),), [("sdb",)]),
        ((("device", "sdz"),), []),
        ((("job", "sdb"),), []),
    ):
        question = RangeQuestion((DISK[0], MEMORY[0]), START + 10, START + 20, 1, only=only)
        (answer,) = StoredHistories({"n1": file}).courses(question)
        assert [each.labels for each in answer.series] == labels


def test_a_picture_of_then_is_the_picture_that_was_shown(file: Path) -> None:
    node = SampledNode(places={"/grid/data": MountedPlace("/grid", "xfs", "sda", ("sda",))})
    rises = {DISK: 150e6, ("node_disk_written_bytes_total", "sda"): 50e6}
    rises |= {("node_cpu_seconds_total", "user"): 2.0, ("node_cpu_seconds_total", "system"): 0.0}
    with HistoryWriter(file) as writer:
        for number in range(130):
            silent = {"/dead": f"no answer for {number - 60} s"} if number > 60 else {}
            writer.add(node.sample(rises, {MEMORY: 1.0}, silent))
            writer.work()
            node.passes()
    histories = StoredHistories({"n1": file})
    frame = histories.frame(START + 100, 5, [WatchedLibrary("data", "disk", "/grid/data", 100e6)])
    (library,), (row,), (mount,) = frame.libraries, frame.nodes, frame.mounts
    assert library.per_core == pytest.approx(100e6, rel=NEAR)
    assert library.standing is Standing.MET
    assert (row.cores, row.machine) == (4, "boot1")
    assert row.sampler_part == pytest.approx(0.004, rel=NEAR)
    assert mount.silent == "no answer since 2027-01-15 08:01:01 UTC"
    assert (frame.time, frame.seconds) == (START + 100, 5)
    assert histories.frame(START + 40, 5).mounts == ()
    assert histories.frame(START + 5000, 5).nodes[0].absent == "nothing is known of that time"


@pytest.mark.parametrize("seconds", [1, 10, 40])
def test_what_was_in_memory_before_is_written_back_in_pictures_of_then_as_well(
    file: Path, seconds: int
) -> None:
    """Else what a job wrote earlier would be the load of a stranger."""
    node, dirty = SampledNode(), ("node_memory_Dirty_bytes",)
    with HistoryWriter(file) as writer:
        for second in range(120):
            writer.add(node.sample({DISK: 1e6}, {dirty: 9e9 - 1e6 * second}))
            node.passes()
    (load,) = StoredHistories({"n1": file}).frame(START + 80, seconds).others
    assert load.written_back_bytes_per_s == pytest.approx(1e6, rel=0.01)


def test_a_history_that_is_not_there_is_a_node_that_is_away(tmp_path: Path) -> None:
    histories = StoredHistories({"n1": tmp_path / "none.history"})
    (answer,) = histories.courses(RangeQuestion((DISK[0],), START, START + 60, 1))
    assert (answer.series, answer.node) == ((), "n1")
    assert "No such file" in answer.absent
    assert histories.frame(START, 1).nodes[0].absent == answer.absent
    assert histories.reach() is None


def test_questions_without_measure_are_answered_in_measure(file: Path) -> None:
    written(file, 200)
    found = course(file, 0.0, 2.0**31, 1)
    assert len(found.series[0].values) <= 4001
    assert sum(value is not None for value in found.series[0].values) == 1
    nothing = course(file, START + 50, START + 50, 1)
    assert all(len(each.values) == 1 for each in nothing.series)


def test_many_series_are_told_in_wider_steps(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = SampledNode()
    with HistoryWriter(file) as writer:
        for _ in range(300):
            writer.add(node.sample({(DISK[0], f"sd{disk}"): 1e6 for disk in range(20)}))
            node.passes()
    monkeypatch.setattr(reading, "MOST_VALUES", 2000)
    found = course(file, START, START + 300, 1)
    assert (found.step_s, len(found.series)) == (4.0, 20)
    assert all(value == pytest.approx(1e6, rel=NEAR) for each in found.series for value in each.values[1:75])


def test_the_rings_are_as_long_as_they_are_said_to_be(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = (
        HistoryLevel(1, 60, 300),
        HistoryLevel(10, 12, 600),
        HistoryLevel(60, 4, 1200),
        HistoryLevel(120, 4, 1920),
    )
    for module in ("store", "rolling", "reading", "measured"):
        monkeypatch.setattr(f"gridwright.monitor.history.{module}.LEVELS", short)
    sizes = []
    node = SampledNode()
    for _ in range(4):
        written(file, 1500, node)
        sizes.append(file.stat().st_size)
    with stores.HistoryStore(file, write=False) as kept:
        for level, each in enumerate(short):
            seconds = sum(block.steps * each.step_s for block in kept.blocks(level))
            assert each.kept_s <= seconds <= each.kept_s + 3 * short[min(level + 1, 3)].block_s
    # Pages of 4 KiB are filled now so, now otherwise.
    assert sizes[-1] <= 1.5 * sizes[1]
    assert LEVELS[0].kept_s == 3600


def test_a_file_that_may_not_grow_lets_its_oldest_go(file: Path) -> None:
    node = SampledNode()
    with HistoryWriter(file, most_bytes=400_000) as writer:
        for number in range(3000):
            # Figures that cannot be packed.
            rises = {
                ("node_disk_read_bytes_total", f"sd{disk}"): math.sin(number * disk) * 1e6 + 2e6
                for disk in range(30)
            }
            writer.add(node.sample(rises))
            writer.work()
            node.passes()
    assert file.stat().st_size <= 400_000
    recent = course(file, START + 2900, START + 2990, 1)
    assert all(value is not None for value in recent.series[0].values)


def test_a_source_that_is_read_now_and_then_loses_nothing_where_minutes_meet(file: Path) -> None:
    """Read every 7 seconds, and told again in between; and one that fell silent for most of a minute."""
    node, slow, silent = SampledNode(), (DISK[0], "slow"), (DISK[0], "silent")
    told = {slow: Reading(*_named(slow), 0.0, node.at_s), silent: Reading(*_named(silent), 0.0, node.at_s)}
    with HistoryWriter(file) as writer:
        for number in range(700):
            if number % 7 == 0:
                told[slow] = Reading(*_named(slow), 3e6 * number, node.at_s)
            if number % 120 not in range(31, 89):
                told[silent] = Reading(*_named(silent), 2e6 * number, node.at_s)
            snapshot = node.sample({DISK: 1e6})
            writer.add(replace(snapshot, readings=(*snapshot.readings, *told.values())))
            writer.work()
            node.passes()
    for step in (1, 10, 60):
        series = {each.labels: each.values for each in course(file, START, START + 600, step).series}
        assert list(series["sda",][1:]) == pytest.approx([1e6] * (600 // step - 1), rel=NEAR)
        assert list(series["slow",][1:]) == pytest.approx([3e6] * (600 // step - 1), rel=NEAR)
        assert list(series["silent",][1:]) == pytest.approx([2e6] * (600 // step - 1), rel=NEAR)


def _named(key: Key) -> tuple[str, tuple[str, ...]]:
    return key[0], key[1:]


def test_an_agent_that_was_held_for_minutes_has_a_gap_and_goes_on(file: Path) -> None:
    node = SampledNode()
    with HistoryWriter(file) as writer:
        for number in range(90):
            writer.add(node.sample({DISK: 1e6}))
            node.passes(300 if number == 59 else 1)
        values = course(file, START, START + 390, 1).series[0].values
    known = {number for number, value in enumerate(values) if value is not None}
    # The rate over the whole of it is known, and stands for its last minute.
    assert known == {*range(1, 60), *range(300, 389)}


def test_a_machine_that_began_in_another_century_is_asked_as_any_other(file: Path) -> None:
    node = SampledNode(time=10.5)
    with HistoryWriter(file) as writer:
        for number in range(3 * 3600):
            writer.add(node.sample({DISK: 1e6}))
            writer.work()
            node.passes(1, clock=float(START) if number == 150 else 0.0)
    first, last = START + 162.0, START + 10.0 + 3 * 3600
    known = [value for value in course(file, first, last, 1).series[0].values if value is not None]
    assert len(known) >= (last - first) / 10 - 1, "the hours before the last one are there by ten seconds"
    assert StoredHistories({"n1": file}).reach() == (0.0, last), "by steps of ten minutes"


# A gap is told as a gap, never as a wrong rate; what a late sample counted is not lost.

CPU = ("node_cpu_seconds_total", "user")
WROTE = ("gridwright_job_written_bytes_total", "7")


def rates(second: MeasuredSecond | None) -> dict[Key, tuple[float, int]]:
    assert second is not None
    return {key: (value, back) for key, value, back in second.values if key != (SAMPLER,)}


def test_counters_become_rates_of_the_second_they_were_read_in_and_gauges_stay() -> None:
    node, told = SampledNode(), Measurements()
    assert told.add(node.sample({DISK: 5e6})) is None
    node.passes()
    second = told.add(node.sample({DISK: 1e6}, {MEMORY: 7.0}))
    assert second is not None
    assert second.slot == START + 1
    assert rates(second) == {DISK: (1e6, 0), MEMORY: (7.0, 0)}
    assert {key: value for key, value, _ in second.values}[(SAMPLER,)] == 0.004


def test_a_late_sample_stands_for_the_seconds_that_were_missed() -> None:
    node, told = SampledNode(), Measurements()
    told.add(node.sample({DISK: 0.0}))
    node.passes(4)
    assert rates(told.add(node.sample({DISK: 8e6})))[DISK] == (2e6, 3)


def test_two_samples_of_a_second_are_one_and_nothing_is_lost() -> None:
    node, told = SampledNode(time=START + 0.1), Measurements()
    told.add(node.sample({DISK: 0.0}))
    node.passes(0.5)
    assert told.add(node.sample({DISK: 1e6})) is None
    node.passes(0.5)
    assert rates(told.add(node.sample({DISK: 2e6})))[DISK] == (3e6, 0)


@pytest.mark.parametrize("clock", [-30.0, -0.9, 30.0, 86400.0])
def test_a_clock_that_was_set_spoils_no_rate_and_fills_no_gap(clock: float) -> None:
    node, told = SampledNode(), Measurements()
    told.add(node.sample({DISK: 0.0}))
    node.passes(1, clock=clock)
    second = told.add(node.sample({DISK: 3e6}))
    assert second is not None
    assert second.clock_was_set
    assert second.slot == int(START + 1.5 + clock)
    assert rates(second)[DISK] == (3e6, 0)


def test_a_counter_that_fell_or_began_anew_has_no_rate_then_and_one_later() -> None:
    node, told = SampledNode(counters={DISK: 9e9}), Measurements()
    told.add(node.sample())
    node.passes()
    node.counters[DISK] = 100.0
    assert DISK not in rates(told.add(node.sample()))
    node.passes()
    assert rates(told.add(node.sample({DISK: 50.0})))[DISK] == (50.0, 0)


def test_counters_of_another_boot_are_others() -> None:
    node, told = SampledNode(counters={DISK: 1.0}), Measurements()
    told.add(node.sample())
    node.machine, node.at_s = "boot2", 3.0
    node.passes(60)
    assert told.add(node.sample({DISK: 1e12})) is None
    node.passes()
    assert rates(told.add(node.sample({DISK: 5.0})))[DISK] == (5.0, 0)


def test_a_source_that_tells_nothing_new_is_waited_for_and_its_rate_is_over_all_of_it() -> None:
    node, told = SampledNode(), Measurements()
    told.add(node.sample({DISK: 0.0}))
    stale = node.sample()
    for _ in range(2):
        node.passes()
        fresh = node.sample()
        held = tuple(each._replace(at_s=stale.at_s) for each in fresh.readings)
        assert DISK not in rates(told.add(replace(fresh, readings=held)))
    node.passes()
    assert rates(told.add(node.sample({DISK: 6e6})))[DISK] == (2e6, 2)


def test_what_is_read_for_the_first_time_has_no_rate_yet() -> None:
    node, told = SampledNode(), Measurements()
    told.add(node.sample({DISK: 0.0}))
    node.passes()
    new = ("node_disk_read_bytes_total", "sdb")
    assert set(rates(told.add(node.sample({new: 1e9})))) == {DISK}
    assert Reading(new[0], new[1:], 1.0, 0.0).key == new


def test_a_job_that_began_meanwhile_has_all_that_it_moved() -> None:
    """Jobs fill the cache in their first second: without that, a history would have less than `top`."""
    node, told = SampledNode(), Measurements()
    told.add(node.sample({CPU: 1.0}))
    node.passes()
    assert rates(told.add(begun(node, WROTE, 6e8, 0.7)))[WROTE] == (6e8, 0)
    node.passes(3)
    assert rates(told.add(begun(node, ("gridwright_job_written_bytes_total", "8"), 6e8, 0.1)))[
        ("gridwright_job_written_bytes_total", "8")
    ] == (2e8, 2)


def test_a_job_that_was_there_before_anybody_looked_has_no_rate_yet() -> None:
    node, told = SampledNode(), Measurements()
    told.add(node.sample({CPU: 1.0}))
    node.passes()
    assert WROTE not in rates(told.add(begun(node, WROTE, 6e8, 5.0)))
    assert told.add(begun(SampledNode(machine="boot2", at_s=9.0), WROTE, 6e8, 0.1)) is None


def begun(node: SampledNode, key: Key, value: float, ago_s: float) -> Snapshot:
    """A sample with a counter that began at zero so long ago."""
    sample = node.sample({CPU: 0.5})
    new = Reading(key[0], key[1:], value, node.at_s, node.at_s - ago_s)
    return replace(sample, readings=(*sample.readings, new))


# What is packed is what was there, as exactly as is promised; spoilt bytes are told, and do no more harm.

NUMBERS = st.floats(0, 2.0**100, width=32) | st.just(math.nan)
"""Rates and gauges, and what is not known."""
NAMES = st.text(st.characters(), max_size=8)
"""Also such as no encoding has: names of mount points are what their bytes are."""


@st.composite
def series(draw: st.DrawFn) -> tuple[dict[Labels, BlockColumn], int]:
    steps = draw(st.integers(1, 7))
    values = st.lists(NUMBERS, min_size=steps, max_size=steps)
    seconds = st.lists(st.integers(0, 600), min_size=steps, max_size=steps)
    found: dict[Labels, BlockColumn] = {}
    for name in draw(st.lists(st.tuples(NAMES, NAMES), max_size=4, unique=True)):
        mean = array("f", draw(values))
        high = mean if draw(st.booleans()) else array("f", draw(values))
        covered = array("H", draw(seconds)) if draw(st.booleans()) else None
        found[name] = BlockColumn(mean, high, covered)
    return found, steps


def same(one: array[float], other: array[float], part: float) -> bool:
    return all(
        (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=part, abs_tol=1e-37)
        for a, b in zip(one, other, strict=True)
    )


@given(series(), st.booleans())
def test_what_was_packed_comes_back(given: tuple[dict[Labels, BlockColumn], int], rounded: bool) -> None:
    columns, steps = given
    found = decode(encode(columns, steps, rounded=rounded))
    assert list(found) == list(columns)
    for name, column in columns.items():
        part = 1 / 4096 if rounded else 0.0
        assert same(found[name].mean, column.mean, part)
        assert same(found[name].high, column.high, part)
        assert found[name].covered == column.covered


@given(st.integers(0, 4096))
def test_small_whole_numbers_stay_what_they_are(number: int) -> None:
    column = BlockColumn(values := array("f", [number]), values, None)
    assert decode(encode({("a",): column}, 1, rounded=True))["a",].mean[0] == number


def test_rounding_leans_to_no_side() -> None:
    rates = array("f", [1e6 + 997 * number for number in range(5000)])
    (found,) = decode(encode({(): BlockColumn(rates, rates, None)}, len(rates), rounded=True)).values()
    assert sum(found.mean) == pytest.approx(sum(rates), rel=1e-6)


@given(series(), st.data())
def test_spoilt_bytes_are_told_as_spoilt(
    given: tuple[dict[Labels, BlockColumn], int], data: st.DataObject
) -> None:
    columns, steps = given
    packed = encode(columns, steps, rounded=False)
    at = data.draw(st.integers(0, len(packed) - 1))
    for spoilt in (
        packed[:at],
        packed[:at] + bytes([packed[at] ^ data.draw(st.integers(1, 255))]) + packed[at + 1 :],
    ):
        try:
            decode(spoilt)
        except SpoiltPiece:
            continue


def test_a_series_that_does_nothing_takes_next_to_nothing() -> None:
    idle: dict[Labels, BlockColumn] = {
        (f"OST{number:04x}",): BlockColumn(zeros := array("f", bytes(240)), zeros, None)
        for number in range(100)
    }
    assert len(encode(idle, 60, rounded=True)) < 4 * len(idle)
