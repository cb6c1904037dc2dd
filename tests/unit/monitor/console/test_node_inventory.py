"""What nodes were at a time: their own then, whoever looked at what before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gridwright.monitor.console.answers import Answers
from gridwright.monitor.console.node_inventory import RECENT_S
from gridwright.monitor.console.queries import range_query, snapshot_query
from gridwright.monitor.console.viewers import Viewer
from gridwright.monitor.console.watching import Watching
from gridwright.monitor.frame import Frame
from gridwright.monitor.libraries import WatchedLibrary
from gridwright.monitor.readings import MountedPlace
from tests.support.pretend_histories import END_S, LIBRARIES, PretendHistories

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
