"""Answers about a grid of a year: what binds, who is away, who may know what, and how large they are."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from gridwright.errors import GridwrightError
from gridwright.monitor.causes.explaining import explain
from gridwright.monitor.console.answers import (
    Answers,
    HealthLine,
    balance_of,
    health_of,
    outlook_of,
    series_document,
)
from gridwright.monitor.console.pictures import RECENT_S, REMEMBERED_S
from gridwright.monitor.console.queries import Values, range_query, series_query, snapshot_query
from gridwright.monitor.console.watching import JobFacts, Viewer, ViewerRule, Watching
from gridwright.monitor.frame import Frame, frame_of
from gridwright.monitor.libraries import WatchedLibrary
from gridwright.monitor.readings import MountedPlace, NodeSamples
from gridwright.monitor.rows import MountRow
from gridwright.monitor.served_rows import ServedJob
from gridwright.monitor.views import SERVED_JOBS
from tests.support.console_grid import troubled
from tests.support.pretend_histories import DAY_S, END_S, LIBRARIES, TROUBLE_S, PretendHistories
from tests.unit.monitor.test_frame import DATA, MB, ON_DISK, disk, node

ADMINISTRATOR = Viewer("root", is_administrator=True)
FACTS = [
    JobFacts(job="4711", user="ann", name="<script>alert(1)</script>", state="running"),
    JobFacts(job="4712", user="bob", name="patients of ward 9", state="running"),
]


def answers(histories: PretendHistories) -> Answers:
    return Answers(
        Watching(
            name="demo",
            histories=histories,
            libraries=LIBRARIES,
            jobs=lambda: FACTS,
            clock=lambda: END_S + 1,
        )
    )


def query(seconds: float, points: int = 100) -> list[tuple[str, str]]:
    return [("from", str(END_S - seconds)), ("to", str(END_S)), ("points", str(points))]


def test_what_held_a_library_below_is_the_same_thing_over_time_as_it_is_now() -> None:
    of_grid = answers(PretendHistories())
    (now,) = of_grid.picture(snapshot_query([]), ADMINISTRATOR)["libraries"]
    (course,) = of_grid.libraries(range_query(query(3600)))["filesystems"]
    assert now["standing"] == "below"
    assert now["causes"] == ["target scratch-OST0002"]
    causes = {each["text"]: each["part"] for each in course["causes"]}
    assert causes == {"target scratch-OST0002": pytest.approx(TROUBLE_S / 3600, abs=0.03)}
    standings = course["standings"]
    assert (standings[5], standings[-2]) == ("met", "below")
    assert course["required"] == 125e6
    # At the last step it is what the picture has.
    known = [each for each in course["perCore"] if each is not None]
    assert known[-1] == pytest.approx(now["per_core"], rel=0.1)


def test_what_is_asked_again_is_the_same_and_is_made_anew_after_a_while() -> None:
    of_grid = answers(PretendHistories())
    now = [1000.0]
    of_grid._steps.clock = lambda: now[0]
    question = range_query(query(3600))
    first = of_grid.libraries(question)
    # A node turns out to have been away in the middle of it.
    object.__setattr__(of_grid.watching, "histories", PretendHistories(away={"compute3": END_S - 1800}))
    again = of_grid.libraries(question)
    assert again["filesystems"][0]["read"][:-3] == first["filesystems"][0]["read"][:-3]
    assert again["filesystems"][0]["read"][-2] < first["filesystems"][0]["read"][-2]
    now[0] += REMEMBERED_S
    later = of_grid.libraries(question)["filesystems"][0]["read"]
    assert later[10] == first["filesystems"][0]["read"][10]
    assert later[-10] < first["filesystems"][0]["read"][-10]


def test_a_node_that_is_away_is_told_and_is_a_gap() -> None:
    of_grid = answers(PretendHistories(away={"compute3": END_S - 1200}))
    picture = of_grid.picture(snapshot_query([]), ADMINISTRATOR)
    assert picture["health"]["state"] == "wrong"
    assert picture["health"]["text"].startswith("compute3 is away: no answer in time")
    question = series_query([*query(3600), ("metric", "node_load1")])
    found = series_document(of_grid.series(question), question)
    (away,) = found["away"]
    assert (away["node"], round(away["from"] - END_S, -2), away["why"]) == ("compute3", -1200, "no samples")
    line = next(each for each in found["lines"] if each["name"] == "compute3")
    assert line["values"][-1] is None
    assert line["values"][5] is not None


def test_a_picture_that_is_old_says_so() -> None:
    of_grid = answers(PretendHistories())
    late = Answers(Watching(name="demo", histories=of_grid.watching.histories, clock=lambda: END_S + 300))
    found = late.picture(snapshot_query([]), ADMINISTRATOR)
    assert found["age"] == pytest.approx(300)
    assert "300 s old" in found["health"]["text"]
    # What is asked of the past is not stale.
    past = late.picture(snapshot_query([("at", str(END_S - 500))]), ADMINISTRATOR)
    assert past["health"]["state"] == "well"


@pytest.mark.parametrize(
    ("viewer", "names", "users"),
    [
        (ADMINISTRATOR, {"<script>alert(1)</script>", "patients of ward 9"}, {"ann", "bob"}),
        (Viewer("ann", is_administrator=False), {"<script>alert(1)</script>"}, {"ann"}),
        (Viewer("eve", is_administrator=False), set(), set()),
        (Viewer(None, is_administrator=False), set(), set()),
    ],
    ids=["administrator", "owner", "somebody else", "nobody"],
)
def test_names_and_owners_of_jobs_are_told_to_owners_and_administrators_alone(
    viewer: Viewer, names: set[str], users: set[str]
) -> None:
    found = answers(PretendHistories()).picture(snapshot_query([]), viewer)
    assert {each["name"] for each in found["jobs"].values()} - {""} == names
    assert {each["user"] for each in found["jobs"].values()} - {None} == users
    everything = json.dumps(found)
    for fact in FACTS:
        assert (json.dumps(fact.name) in everything) == (fact.name in names)
    table = next(each for each in found["tables"] if each["title"] == "Users")
    # One job is of no user that anybody knows: with it, the sum over users is that over jobs.
    unknown = {"unknown"} if viewer.is_administrator else set()
    assert {row["key"] for row in table["rows"]} == users | unknown


class WithServers(PretendHistories):
    """Servers count jobs, too, by the names that Lustre gives them."""

    def frame(self, at_s: float, seconds: float, libraries: Sequence[WatchedLibrary] = ()) -> Frame:
        served = [
            ServedJob(
                job=name,
                filesystem="scratch",
                component="ost",
                read_bytes_per_s=1e6,
                written_bytes_per_s=1e6,
                reads_per_s=1.0,
                writes_per_s=1.0,
                operations_per_s=0.0,
            )
            for name in ("4711", "17_3", "other", "oncology.1003")
        ]
        return replace(super().frame(at_s, seconds, libraries), served_jobs=tuple(served))


def test_names_that_lustre_gives_jobs_are_for_administrators() -> None:
    of_grid = answers(WithServers())
    for viewer, expected in ((ADMINISTRATOR, 4), (Viewer("ann", is_administrator=False), 3)):
        found = of_grid.picture(snapshot_query([]), viewer)
        table = next(each for each in found["tables"] if each["title"] == SERVED_JOBS)
        assert len(table["rows"]) == expected
        assert ("oncology" in json.dumps(found)) == (expected == 4)


def test_why_it_is_slow_is_told_in_words_to_administrators_alone() -> None:
    of_grid = Answers(troubled(PretendHistories()))
    told = of_grid.why(snapshot_query([]), ADMINISTRATOR)["text"]
    assert "data, work on scratch: slow" in told
    assert "what binds: requests to target scratch-OST0002" in told
    assert "job 4711 began" in told
    with pytest.raises(GridwrightError, match="administrators"):
        of_grid.why(snapshot_query([]), Viewer("ann", is_administrator=False))


def test_who_asks_is_the_starter_or_whom_the_proxy_names() -> None:
    alone = ViewerRule("ann", started_by_root=False)
    assert alone.viewer({"x-user": "root"}) == Viewer("ann", is_administrator=False)
    behind = ViewerRule("root", True, "X-User", frozenset({"ann"}))
    assert behind.viewer({"x-user": "ann"}) == Viewer("ann", is_administrator=True)
    assert behind.viewer({"x-user": "bob"}) == Viewer("bob", is_administrator=False)
    assert behind.viewer({}) == Viewer(None, is_administrator=False)


def test_a_year_of_a_thousand_jobs_is_a_bounded_answer() -> None:
    of_grid = answers(PretendHistories(count=4, jobs=tuple(str(number) for number in range(400))))
    question = series_query(
        [
            *query(365 * DAY_S, 1000),
            ("metric", "gridwright_job_read_bytes_total"),
            ("by", "job"),
            ("most", "20"),
        ]
    )
    found = series_document(of_grid.series(question), question)
    assert found["others"] == 380
    assert len(found["lines"]) == 21
    assert len(json.dumps(found)) < 500_000
    year = of_grid.space(range_query(query(365 * DAY_S)))
    (mount,) = year["mounts"]
    assert mount["nodes"] == ["compute1", "compute2", "compute3", "compute4"]
    assert (mount["outlook"], round(mount["bytes_per_day"], -8)) == ("fills", 4e10)
    (room,) = year["rooms"]
    assert (room["filesystem"], room["component"], room["targets"]) == ("scratch", "ost", 4)
    assert (room["fullest"], room["emptiest"]) == ("scratch-OST0003", "scratch-OST0000")
    assert (room["fullest_part"], room["emptiest_part"], room["median_part"]) == (0.9, 0.6, 0.75)
    (balance,) = year["balance"]
    assert (balance["busiest"], balance["ratio"] < 1.1) == ("scratch-OST0002", True)


# The health line is by the judge of `explain-slow`; what cannot be told is not well.

UNCOUNTED = {DATA.directory: MountedPlace("/grid", "fuse.mfs", "", ())}
FREE = replace(DATA, required=None)
FULL = {**disk("md0", 20 * MB), **disk("sda", 20 * MB, busy=0.97)}


def health(sample: NodeSamples, library: WatchedLibrary) -> tuple[HealthLine, bool | None]:
    frame = frame_of([sample], [library])
    return health_of(frame, None), explain(frame).filesystems[0].slow


@pytest.mark.parametrize(
    ("sample", "library", "slow", "state"),
    [
        (node(iowait=2.0, places=UNCOUNTED), DATA, None, "unknown"),
        (node(iowait=3.0, counted=FULL, places=ON_DISK), FREE, True, "warning"),
        (node(iowait=3.0, counted=disk("md0", 20 * MB), places=ON_DISK), FREE, None, "unknown"),
        (node(user=0.01, places=UNCOUNTED), DATA, False, "well"),
        (node(user=3.0, counted=disk("md0", 900 * MB), places=ON_DISK), DATA, False, "well"),
    ],
    ids=["clients count nothing", "full", "nothing at its limit", "nobody works", "met"],
)
def test_what_is_slow_or_cannot_be_told_is_not_well(
    sample: NodeSamples, library: WatchedLibrary, slow: bool | None, state: str
) -> None:
    line, told = health(sample, library)
    assert (told, line.state) == (slow, state), line
    if slow is None:
        assert "data on disk: cannot tell whether it is slow" in line.text


def test_a_full_file_system_is_told_with_its_nodes() -> None:
    def mount(node: str, used: float, source: str = "/dev/sda1", point: str = "/") -> MountRow:
        return MountRow(
            node=node, mount_point=point, kernel_type="ext4", source=source, size_bytes=1e12,
            used_part=used, read_bytes_per_s=None, written_bytes_per_s=None, targets=0,
        )  # fmt: skip

    frame = replace(
        frame_of([node()], []),
        mounts=(
            *(mount(f"n{number}", 0.95 + number / 100) for number in (1, 2, 3)),
            mount("n4", 0.5),
            mount("n4", 0.96, "server:/data", "/data"),
        ),
    )
    told = [part.text for part in health_of(frame, None).parts if part.view == "space"]
    assert told == ["/ of n[1-3] is 98% full", "/data of n4 is 96% full"]


# What nodes were at a time: their own then, whoever looked at what before.

MOVED_S = END_S - 7200.0
"""Until then the libraries lay on a disk of each node, of which nothing is counted here."""
ROOT = Viewer("root", is_administrator=True)


class Moved(PretendHistories):
    """Libraries that were moved to Lustre; counts the pictures that were asked for."""

    asked = 0

    def frame(self, at_s: float, seconds: float, libraries: Sequence[WatchedLibrary] = ()) -> Frame:
        self.asked += 1
        found = super().frame(at_s, seconds, libraries)
        if at_s >= MOVED_S:
            return found
        disk = {each.directory: MountedPlace("/", "xfs", "sda", ("sda",)) for each in LIBRARIES}
        return replace(found, places=dict.fromkeys(found.places, disk))


def is_read(answers: Answers, end_s: float) -> bool:
    """Whether anything is told of what file systems gave in the ten minutes before."""
    times = [("from", str(end_s - 600)), ("to", str(end_s)), ("points", "20")]
    (filesystem,) = answers.libraries(range_query(times))["filesystems"]
    return any(each for each in filesystem["read"] if each is not None)


def watched(histories: PretendHistories) -> Answers:
    return Answers(Watching(name="demo", histories=histories, libraries=LIBRARIES, clock=lambda: END_S + 1))


def test_libraries_of_another_time_lie_on_what_they_lay_on_then() -> None:
    histories = Moved()
    answers = watched(histories)
    assert is_read(answers, END_S)
    assert not is_read(answers, MOVED_S - 3 * RECENT_S), (
        "Lustre was mounted, but the libraries were elsewhere"
    )
    # Who has looked back has not changed what is now.
    answers.picture(snapshot_query([("at", str(MOVED_S - 3000))]), ROOT)
    assert is_read(answers, END_S)
    before = histories.asked
    assert is_read(answers, END_S)
    assert not is_read(answers, MOVED_S - 3 * RECENT_S)
    assert histories.asked == before, "each time is looked at once"


def test_a_node_that_is_away_now_is_as_it_was() -> None:
    """A console that was started after it went away knows it from its history alone."""
    gone = END_S - 3600
    answers = watched(PretendHistories(away={f"compute{number}": gone for number in (2, 3)}))
    assert is_read(answers, END_S)
    times = [("from", str(gone - 600)), ("to", str(gone)), ("points", "20")]
    (filesystem,) = answers.libraries(range_query(times))["filesystems"]
    known = [each for each in filesystem["read"] if each is not None]
    alone = watched(PretendHistories(away={f"compute{number}": 0.0 for number in (2, 3)}))
    (of_one,) = alone.libraries(range_query(times))["filesystems"]
    assert known[5] > 1.5 * [each for each in of_one["read"] if each is not None][5]


# When a file system is full: told where the past says so, and not told where it does not.

DAYS = np.arange(0, 60, 0.5)
TIMES = [float(each) * DAY_S for each in DAYS]


def noise(size: float) -> Values:
    swing: Values = np.sin(np.arange(len(DAYS)) * 12.9898)
    return size * swing


def test_a_library_that_grows_is_full_when_it_is_and_outliers_do_not_change_that() -> None:
    used = 1e12 + 1e10 * DAYS + noise(2e9)
    # In every sixth sample scratch data of a night lie there as well.
    used[::6] += 5e11
    found = outlook_of(TIMES, used, 2e12)
    last = float(used[-1])
    assert found.outlook == "fills"
    assert found.days == pytest.approx((2e12 - last) / 1e10, rel=0.05)
    assert found.soonest is not None and found.latest is not None and found.days is not None
    assert found.soonest <= found.days <= found.latest


@pytest.mark.parametrize(
    ("used", "outlook"),
    [
        (np.full(len(DAYS), 1e12), "steady"),
        (1e12 - 1e10 * DAYS, "empties"),
        (1e12 + noise(3e11), "cannot tell"),
        (1e12 + 1e6 * DAYS, "cannot tell"),
        (np.where(DAYS < 55, np.nan, 1e12 + 1e10 * DAYS), "cannot tell"),
    ],
    ids=["steady", "empties", "goes up and down", "would take longer than anybody saw", "too few points"],
)
def test_what_does_not_fill_or_cannot_be_told_has_no_days(used: Values, outlook: str) -> None:
    found = outlook_of(TIMES, used, 2e12)
    assert (found.outlook, found.days) == (outlook, None)
    assert (found.why != "") == (outlook == "cannot tell")


def test_a_file_system_that_is_full_has_no_days_left() -> None:
    used = np.minimum(2e12, 1.9e12 + 1e10 * DAYS / 5)
    found = outlook_of(TIMES, used, 2e12)
    assert found.days == 0.0


def test_balance_tells_the_busiest_target_against_the_mean() -> None:
    found = balance_of([("t1", 1.0), ("t2", 1.0), ("t3", 4.0)])
    assert found is not None
    assert (found.targets, found.busiest, found.ratio) == (3, "t3", 2.0)
    assert balance_of([("t1", 1.0)]) is None
    idle = balance_of([("t1", 0.0), ("t2", 0.0)])
    assert idle is not None and idle.ratio is None and not math.isnan(idle.mean)
