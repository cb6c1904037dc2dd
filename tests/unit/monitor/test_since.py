"""Since when it is slow, and what changed before: out of recordings, which are histories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from gridwright.cli.watch.explain_slow import SlowQuestion, explained_history, explained_recording
from gridwright.errors import GridwrightError
from gridwright.monitor.causes.changes import Beginning, MarkedEvent, changes_before, since_when
from gridwright.monitor.causes.explaining import was_slow
from gridwright.monitor.causes.measured import StatedLimit
from gridwright.monitor.causes.words import explanation_text
from gridwright.monitor.history.choosing import RecordedHistories
from gridwright.monitor.history.questions import RangeQuestion
from gridwright.monitor.libraries import WatchedLibrary
from gridwright.monitor.readings import MountedPlace, NodeSamples, Reading, Snapshot
from gridwright.monitor.recording import Recorder, Recording
from gridwright.watch.state import LoggedChange, append_changes

MB = 1e6
START, STEP = 1_000_000.0, 10
LIMITS = (StatedLimit("disk.disks-read", "disks of a node", "node", 2000 * MB, "the grid spec", 1.0, 0.0),)
DATA = WatchedLibrary("data", "disk", "/grid/data", 100 * MB, LIMITS)
PLACES = {DATA.directory: MountedPlace("/grid", "xfs", "sda", ("sda",))}
LIMIT = ("gridwright_group_io_limit_bytes", "/job_17", "sda", "read")
MOVED = ("gridwright_group_io_bytes_total", "/job_17", "sda", "read")
FINE = {"rate": 400 * MB, "iowait": 1.0, "user": 2.0}
SLOW = {"rate": 4 * MB, "iowait": 3.0, "user": 0.1}
IDLE = {"rate": 0.0, "iowait": 0.0, "user": 0.01}


@dataclass
class Story:
    """Snapshots of a node each ten seconds, whose counters go on as each spell says."""

    boot: str = "one"
    booted: float = START - 9000
    gauges: dict[tuple[str, ...], float] = field(default_factory=dict)
    _at: float = 0.0
    _counters: dict[tuple[str, ...], float] = field(default_factory=dict)
    told: list[list[NodeSamples]] = field(default_factory=list)

    def goes(self, seconds: int, rate: float = 0.0, iowait: float = 0.0, user: float = 0.0) -> Story:
        """So it was for a while."""
        for _ in range(seconds // STEP):
            self._at += STEP
            for key, value in (
                (("node_disk_read_bytes_total", "sda"), rate),
                (("node_disk_written_bytes_total", "sda"), 0.0),
                (("node_disk_io_time_seconds_total", "sda"), 0.1),
                (("node_cpu_seconds_total", "user"), user),
                (("node_cpu_seconds_total", "system"), 0.0),
                (("node_cpu_seconds_total", "iowait"), iowait),
                *([(MOVED, rate)] if LIMIT in self.gauges else []),
            ):
                self._counters[key] = self._counters.get(key, 0.0) + value * STEP
            self.told.append([NodeSamples("n1", after=self._snapshot())])
        return self

    def away(self, seconds: int) -> Story:
        """It does not answer."""
        for _ in range(seconds // STEP):
            self._at += STEP
            self.told.append([NodeSamples("n1", absent="no route")])
        return self

    def boots(self) -> Story:
        """It is booted: counters begin anew."""
        self.boot, self.booted = "two", START + self._at
        self._counters.clear()
        return self

    def has(self, *key: str, value: float = 1.0) -> Story:
        """A gauge that is there from now on."""
        self.gauges[key] = value
        return self

    @property
    def now(self) -> float:
        return START + self._at

    def _snapshot(self) -> Snapshot:
        values = {
            **self._counters,
            ("node_boot_time_seconds",): self.booted,
            ("node_load1",): 1.0,
            **self.gauges,
        }
        readings = tuple(Reading(key[0], key[1:], value, self._at) for key, value in values.items())
        return Snapshot("n1", self.boot, self.now, self._at, 8, 4, readings, places=PLACES)

    def recorded(self, place: Path) -> Path:
        with Recorder(place / "told.top", [DATA]) as recorder:
            for each in self.told:
                recorder.add(each)
        return place / "told.top"


def began(story: Story, place: Path) -> Beginning:
    histories = RecordedHistories(Recording(story.recorded(place)))
    return since_when(histories, story.now, 10.0, (DATA,), partial(was_slow, filesystem="disk"))


@pytest.mark.parametrize("minutes", [1, 5, 60])
def test_since_when_it_is_slow_is_told_to_a_small_part_of_how_long_ago_it_is(
    tmp_path: Path, minutes: int
) -> None:
    story = Story().goes(1200, **FINE)
    true = story.now
    found = began(story.goes(minutes * 60, **SLOW), tmp_path)
    assert found.at_s is not None
    assert not found.at_least
    assert found.at_s - found.within_s - STEP <= true <= found.at_s
    assert found.within_s <= 20 + 0.1 * minutes * 60


def test_a_pause_ends_a_spell(tmp_path: Path) -> None:
    story = Story().goes(600, **FINE).goes(600, **SLOW).goes(300, **IDLE)
    true = story.now
    found = began(story.goes(300, **SLOW), tmp_path)
    assert found.at_s == pytest.approx(true, abs=30)


def test_what_was_slow_from_the_beginning_may_have_been_so_before(tmp_path: Path) -> None:
    story = Story().goes(600, **SLOW)
    found = began(story, tmp_path)
    assert found.at_least
    assert found.at_s == pytest.approx(START, abs=30)
    assert found.why == "histories begin then"


@pytest.mark.parametrize(
    "between",
    [lambda story: story.away(300), lambda story: story.boots()],
    ids=["away", "booted"],
)
def test_a_gap_is_no_spell_and_no_good_time(tmp_path: Path, between: Callable[[Story], Story]) -> None:
    story = between(Story().goes(600, **FINE).goes(60, **SLOW))
    true = story.now
    found = began(story.goes(60, **SLOW), tmp_path)
    assert found.at_least
    assert found.at_s == pytest.approx(true, abs=40)
    assert found.why == "of the time before, it cannot be told"


def test_what_is_not_slow_any_more_did_not_begin(tmp_path: Path) -> None:
    found = began(Story().goes(600, **SLOW).goes(60, **FINE), tmp_path)
    assert (found.at_s, found.why) == (None, "histories do not show it yet")


def texts(marks: Sequence[MarkedEvent]) -> list[str]:
    return [each.text for each in marks]


def test_what_changed_before_is_told_with_its_time_and_what_did_not_change_is_not(tmp_path: Path) -> None:
    card = ("node_network_speed_bytes", "eth0")
    story = Story().has("gridwright_job_processes", "17").has(*card, value=12.5e9).goes(600, **FINE)
    story.has("gridwright_job_processes", "18").goes(60, **FINE)
    story.has("node_filesystem_size_bytes", "/scratch", "xfs", "/dev/sdb").has(*card, value=1.25e9)
    story.goes(60, **FINE)
    true = story.now
    story.has(*LIMIT, value=4 * MB).goes(120, **SLOW)
    histories = RecordedHistories(Recording(story.recorded(tmp_path)))
    marks = changes_before(histories, true)
    assert sorted(texts(marks)) == [
        "/scratch (xfs) was mounted on n1",
        "card eth0 of n1 goes at 1.25 GB/s (12.5 GB/s before)",
        "control group /job_17 of n1 may read 4 MB/s at sda (none before)",
        "job 18 began on n1",
    ]
    assert [each.at_s for each in marks] == sorted(each.at_s for each in marks)
    assert marks[0].at_s == pytest.approx(START + 600, abs=20)
    assert {each.sort for each in marks} == {"job", "mount", "network", "limit"}


def test_a_boot_and_a_node_that_was_not_seen_are_told(tmp_path: Path) -> None:
    story = Story().goes(300, **FINE).away(120).boots().goes(60, **FINE)
    marks = changes_before(RecordedHistories(Recording(story.recorded(tmp_path))), story.now)
    assert "n1 was not seen for a while before" in texts(marks)
    assert "n1 was booted" in texts(marks)
    assert not any(each.sort in {"job", "mount", "limit"} for each in marks)


def question(play: Path, at_s: float | None = None, job: str | None = None) -> SlowQuestion:
    return SlowQuestion(None, job, None, at_s, 10.0, play, play.parent / "runs")


def test_what_a_watch_found_before_is_told_and_what_it_found_at_other_times_is_not(tmp_path: Path) -> None:
    story = Story().goes(1800, **FINE)
    true = story.now
    story.has(*LIMIT, value=4 * MB).goes(300, **SLOW)
    recording = Recording(story.recorded(tmp_path))
    at = {"disk-failing": true - 120, "clock-off": true - 1500, "swap-used": true + 200}
    found = [
        LoggedChange(number, at_s, "opened", name, ["n1"], "", "error", at_s, f"what {name} is")
        for number, (name, at_s) in enumerate(sorted(at.items(), key=lambda each: each[1]), 1)
    ]
    append_changes(tmp_path, found)
    asked = SlowQuestion(None, None, None, story.now, 10.0, None, tmp_path / "runs", watch=tmp_path)
    told = explained_history(asked, RecordedHistories(recording), story.now, recording.libraries)
    assert [each.text for each in told.changes if each.sort == "finding"] == [
        "disk-failing opened: what disk-failing is (n1)"
    ]
    assert "[gridwright watch]" in explanation_text(told)


def test_a_recording_is_asked_for_its_end_or_for_a_time(tmp_path: Path) -> None:
    story = Story().goes(600, **FINE)
    true = story.now
    story.has(*LIMIT, value=4 * MB).goes(300, **SLOW)
    play = story.recorded(tmp_path)
    told = explained_recording(question(play))
    (disk,) = told.filesystems
    assert disk.slow
    assert "disk.disks-read of n1" in [each.name for each in disk.others], (
        "a recording has the model's limits"
    )
    assert [each.sort for each in disk.binds] == ["control-group"]
    assert disk.since is not None
    assert disk.since.at_s == pytest.approx(true, abs=30)
    assert [each.sort for each in told.changes] == ["limit"]
    words = " ".join(explanation_text(told).split())
    assert "control group /job_17 of n1 may read 4 MB/s at sda (none before)" in words
    before = explained_recording(question(play, at_s=true - 60))
    assert (before.slow, before.filesystems[0].slow, before.changes) == (False, False, ())
    with pytest.raises(GridwrightError, match="has nothing of that time"):
        explained_recording(question(play, at_s=true - 99_999))
    with pytest.raises(GridwrightError, match='no node has a process of job "5"'):
        explained_recording(question(play, job="5"))


def test_courses_of_a_recording_have_means_of_steps_and_gaps(tmp_path: Path) -> None:
    story = Story().goes(60, **FINE).away(60).goes(60, **SLOW)
    histories = RecordedHistories(Recording(story.recorded(tmp_path)))
    asked = RangeQuestion(("node_disk_read_bytes_total", "node_load1"), START, START + 180, 30.0)
    (course,) = histories.courses(asked)
    by_metric = {each.metric: each for each in course.series}
    assert by_metric["node_disk_read_bytes_total"].labels == ("sda",)
    rates = by_metric["node_disk_read_bytes_total"].values
    assert rates[0] == pytest.approx(400 * MB)
    assert rates[1] == pytest.approx(400 * MB)
    assert rates[2:4] == (None, None)
    assert rates[5] == pytest.approx(4 * MB)
    assert histories.reach() == (START + STEP, START + 180)
