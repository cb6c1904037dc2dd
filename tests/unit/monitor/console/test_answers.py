"""Answers about a grid of a year: what binds, who is away, who may know what, and how large they are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from gridwright.errors import GridwrightError
from gridwright.monitor.console.answers import Answers, series_document
from gridwright.monitor.console.pictures import REMEMBERED_S
from gridwright.monitor.console.queries import range_query, series_query, snapshot_query
from gridwright.monitor.console.viewers import JobFacts, Viewer, ViewerRule
from gridwright.monitor.console.watching import Watching
from gridwright.monitor.frame import Frame
from gridwright.monitor.libraries import WatchedLibrary
from gridwright.monitor.served_rows import ServedJob
from gridwright.monitor.served_views import SERVED_JOBS
from tests.support.console_grid import troubled
from tests.support.pretend_histories import DAY_S, END_S, LIBRARIES, TROUBLE_S, PretendHistories

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
