"""When a finding opens, closes and flaps: by rounds, whatever clocks do."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as some

from gridwright.watch.damping import Changed, Damping, KnownFinding, RoundNumbers, advance
from gridwright.watch.rounds import FindingKey, Pace, RoundReport, SeenFinding

KEY = FindingKey("library-hangs", ("compute2",), "data")


@dataclass
class Rounds:
    """One finding through rounds, a minute each."""

    pace: Pace = "each"
    key: FindingKey = KEY
    now_s: float = 1000.0
    numbers: RoundNumbers = field(default_factory=RoundNumbers)
    known: dict[FindingKey, KnownFinding] = field(default_factory=dict)

    def see(self, what: str, *, everything: bool = False, aside: bool = False) -> list[str]:
        """`x` it is there, `.` it is not, `?` nobody answered, `-` its node is gone."""
        seen = SeenFinding(self.key, "error", self.pace, "does not answer")
        report = RoundReport(
            [seen] if what == "x" else [],
            [self.key] if what == "." else [],
            [self.key] if what == "-" else [],
            list(self.key.nodes) if aside else [],
        )
        self.numbers = self.numbers.after(everything=everything)
        self.known, changed = advance(self.known, report, self.numbers, Damping(), self.now_s)
        self.now_s += 60
        self.last: list[Changed] = changed
        return [each.step for each in changed]

    def run(self, pattern: str) -> str:
        """The steps of rounds, one letter each: o(pened) c(losed) f(lapping) s(ettled), or `_`."""
        return "".join((self.see(each) or ["_"])[0][0] for each in pattern)

    @property
    def finding(self) -> KnownFinding:
        return self.known[self.key]


def test_a_finding_opens_after_two_rounds_and_closes_after_three() -> None:
    assert Rounds().run("x.") == "__", "once is a blip"
    rounds = Rounds()
    assert rounds.run("xxx") == "_o_"
    assert rounds.finding.since_s == 1000.0, "since it was first seen, not since it opened"
    assert rounds.run("..x") == "___", "two rounds without it may be chance"
    assert rounds.run("...") == "__c"


def test_rounds_without_an_answer_neither_open_nor_close() -> None:
    rounds = Rounds()
    assert rounds.run("xx") == "_o"
    seen_s = rounds.finding.last_looked_s
    assert rounds.run("?" * 100) == "_" * 100
    assert rounds.finding.is_open
    assert rounds.finding.last_looked_s == seen_s
    assert rounds.run(".?.?.") == "____c"
    assert Rounds().run("x???") == "____"


def test_what_all_checks_look_at_opens_and_closes_at_once() -> None:
    assert Rounds("all").see("x", everything=True) == ["opened"]
    rounds = Rounds("all")
    rounds.see("x", everything=True)
    assert rounds.run("?" * 59) == "_" * 59
    assert rounds.see(".", everything=True) == ["closed"]


def test_a_finding_that_comes_and_goes_is_told_once() -> None:
    rounds = Rounds()
    said = rounds.run("x." * 120)
    assert said.replace("_", "") == "f"
    assert rounds.finding.is_flapping and rounds.finding.is_open
    assert rounds.run("." * 61).replace("_", "") == "c", "an hour without a change"
    assert rounds.known == {}


def test_flapping_that_ends_with_the_fault_there_is_settled() -> None:
    rounds = Rounds()
    assert rounds.run("xx" + "...xx" * 3).replace("_", "") == "ococof"
    assert rounds.run("x" * 61).replace("_", "") == "s"
    assert not rounds.finding.is_flapping
    assert rounds.run("...").replace("_", "") == "c"


def test_a_clock_that_steps_changes_nothing_but_times() -> None:
    steady, stepping = Rounds(), Rounds()
    pattern = "xx...x.x.xx..." + "." * 70 + "xx"
    expected = steady.run(pattern)
    said = ""
    for number, each in enumerate(pattern):
        stepping.now_s += -1e6 if number % 7 == 3 else 86_400.0 if number % 5 == 2 else 0
        said += stepping.run(each)
    assert said == expected


def test_of_a_node_that_is_set_aside_nothing_is_told_until_it_is_back() -> None:
    rounds = Rounds()
    assert [rounds.see("x", aside=True) for _ in range(5)] == [[]] * 5
    assert rounds.finding.is_open and not rounds.finding.is_told
    assert rounds.see("x") == ["opened"]
    rounds = Rounds()
    for each in "xxx...":
        assert rounds.see(each, aside=True) == []
    down = Rounds(key=FindingKey("node-down", ("compute2",)))
    assert [*down.see("x", aside=True), *down.see("x", aside=True)] == ["opened"], "that it is away is told"


def test_a_node_that_dies_is_told_though_its_scheduler_gives_it_no_jobs_any_more() -> None:
    silent, down = (FindingKey(name, ("compute2",)) for name in ("node-silent", "node-down"))
    died = Rounds(key=silent)
    assert [*died.see("x", aside=True), *died.see("x", aside=True)] == ["opened"]
    drained = Rounds(key=down)
    drained.run("xx")
    drained.key = silent
    assert [*drained.see("x", aside=True), *drained.see("x", aside=True)] == [], (
        "it was told to be away before"
    )


def test_a_node_that_left_closes_its_finding_at_once() -> None:
    rounds = Rounds()
    rounds.run("xx")
    assert rounds.see("-") == ["closed"]
    assert rounds.last[0].why
    assert rounds.known == {}


@given(some.text("x.?", max_size=400))
def test_what_is_told_makes_sense_in_its_order(pattern: str) -> None:
    """Whoever keeps a list by what is told has what is open, and hears little however it flaps."""
    rounds = Rounds()
    listed = False
    told = 0
    for each in pattern:
        for step in rounds.see(each):
            told += 1
            assert step == "flapping" or listed is (step in ("closed", "settled"))
            listed = step != "closed"
        assert listed is (KEY in rounds.known and rounds.known[KEY].is_open)
        assert KEY not in rounds.known or len(rounds.known[KEY].changes) <= 6
    # Six changes make it flap, so that five steps are told before that; then an hour is quiet.
    assert told <= 6 + 6 * (len(pattern) // 60)
