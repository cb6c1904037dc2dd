"""What a round tells: what is wrong, what was looked for and not found, and what nobody could look at."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gridwright.doctor.check import Observation, PairFindings, SearchedFiles, Tried
from gridwright.doctor.checks import all_checks
from gridwright.doctor.facts.node_facts import NodeFacts
from gridwright.errors import Finding
from gridwright.filesystems.health import Condition, Health, Server, TargetHealth
from gridwright.watch.judging import round_report
from gridwright.watch.rounds import FindingKey, RoundReport
from tests.support.doctor_grid import MACHINES, grid, machine, mount, sound

CHEAP = [check for check in all_checks() if check.is_cheap]
AWAY = Finding("error", "target-away", "not connected: scratch-OST0001", "see its server")
HANGS = FindingKey("library-hangs", ("compute2",), "data")


def two(**changes: Any) -> Observation:
    seen = grid(machine("compute1"), machine("compute2", **changes), spec=MACHINES)
    return replace(seen, known=("compute1", "compute2"))


def round_of(seen: Observation, *known: FindingKey, everything: bool = False) -> RoundReport:
    return round_report(seen, all_checks() if everything else CHEAP, known, everything=everything)


def keys(report: RoundReport) -> set[FindingKey]:
    return {each.key for each in report.found}


def test_a_sound_grid_has_no_findings_and_clears_what_was_known() -> None:
    known = (HANGS, FindingKey("mount-hangs", ("compute2",), "/backup"), FindingKey("scheduler-silent"))
    report = round_of(two(), *known)
    assert report.found == []
    assert set(report.clear) == set(known)
    assert (report.nodes, report.silent) == (2, 0)


def test_two_mounts_that_hang_are_two_findings_and_one_closes_alone() -> None:
    first, second = (FindingKey("mount-hangs", ("compute2",), point) for point in ("/a", "/b"))
    both = round_of(two(mounts=[mount("/a", hangs=True), mount("/b", hangs=True)]))
    assert {first, second} <= keys(both)
    one = round_of(two(mounts=[mount("/a", hangs=True), mount("/b")]), first, second)
    assert first in keys(one)
    assert one.clear == [second]


def test_a_full_disk_that_hangs_is_not_said_to_be_mended() -> None:
    full = FindingKey("disk-full", ("compute2",), "/a")
    report = round_of(two(mounts=[mount("/a", hangs=True)]), full)
    assert full not in report.clear and full not in keys(report)


def test_a_library_that_hangs_answers_nothing_of_what_else_was_wrong_with_it() -> None:
    known = [
        FindingKey(name, ("compute2",), "data")
        for name in ("library-full", "library-refuses", "flock-missing")
    ]
    report = round_of(
        two(libraries={"data": replace(sound(), hangs=True, total_bytes=None, locks=None)}), *known
    )
    assert HANGS in keys(report)
    assert report.clear == []


def test_a_service_that_may_not_write_to_a_library_says_nothing_of_it() -> None:
    refuses = FindingKey("library-refuses", ("compute2",), "data")
    for why, told in (("Permission denied", False), ("No space left on device", True)):
        seen = two(libraries={"data": replace(sound(), refused=why, locks=None)})
        report = round_report(seen, CHEAP, [refuses], everything=False, as_service=True)
        assert (refuses in keys(report)) is told
        assert report.clear == []
        assert refuses in keys(round_of(seen))


def test_a_silent_node_is_one_finding_and_closes_none() -> None:
    seen = two()
    facts: dict[str, NodeFacts] = {"compute1": seen.facts["compute1"]}
    silent = replace(seen, facts=facts, silent={"compute2": "no answer in time"}, down={"compute2": "DOWN"})
    known = (HANGS, FindingKey("node-down", ("compute2",)), FindingKey("library-full", ("compute1",), "data"))
    report = round_of(silent, *known)
    assert keys(report) == {FindingKey("node-silent", ("compute2",))}
    assert report.clear == [known[2]]
    back = round_of(seen, FindingKey("node-silent", ("compute2",)))
    assert back.clear == [FindingKey("node-silent", ("compute2",))]


def test_a_cheap_round_closes_nothing_that_only_all_checks_look_at() -> None:
    kernel = FindingKey("kernel-differs", ("compute2",))
    pair = FindingKey("flock-alone", ("compute1", "compute2"), "shared")
    healthy = two(health={"shared": []})
    assert round_of(healthy, kernel, pair).clear == []
    tried = PairFindings((Tried("shared", ("compute1", "compute2"), "flock", None),))
    whole = round_of(replace(healthy, pairs=tried), kernel, pair, everything=True)
    assert set(whole.clear) == {kernel, pair}
    untried = PairFindings((), {("compute1", "compute2"): "compute2 has not answered"})
    assert pair not in round_of(replace(healthy, pairs=untried), pair, everything=True).clear


def test_what_a_client_told_of_a_file_system_closes_when_it_is_asked_again() -> None:
    told = two(health={"shared": [AWAY]})
    (sighting,) = round_of(told).found
    assert sighting.key == FindingKey("target-away", ("compute2",), "shared")
    assert round_of(two(), sighting.key).clear == [], "it was not asked"
    assert round_of(two(health={"shared": []}), sighting.key).clear == [sighting.key]


def test_each_target_that_is_down_is_a_finding_whoever_sees_it() -> None:
    def down(*targets: str) -> Observation:
        away = {"shared": dict.fromkeys(targets, "DISCONN")}
        nodes = (machine(f"compute{number}", health={"shared": []}, targets_away=away) for number in (1, 2))
        return replace(grid(*nodes, spec=MACHINES), known=("compute1", "compute2"))

    first, second = (
        FindingKey("watch-target-down", (), f"shared scratch-OST000{number}") for number in (1, 2)
    )
    (sighting,) = round_of(down("scratch-OST0001")).found
    assert sighting.key == first
    assert sighting.found.startswith("scratch-OST0001 of file system shared is not up: DISCONN to compute1")
    both = round_of(down("scratch-OST0001", "scratch-OST0002"), first)
    assert keys(both) == {first, second}
    assert round_of(down("scratch-OST0002"), first, second).clear == [first]
    assert round_of(down(), first).clear == [first]
    for silent in (two(), two(health={"shared": []})):
        assert round_of(silent, first).clear == [], "no client told of targets"
    servers = replace(two(), filesystems={"shared": ()}, targets_away={"shared": {"disk1": "damaged"}})
    assert keys(round_of(servers)) == {FindingKey("watch-target-down", (), "shared disk1")}


def test_files_that_were_searched_in_part_may_still_lie_badly() -> None:
    wide = Finding("warning", "single-target-files", "large files on one target", "move them")
    searched = replace(two(), searched={"shared": SearchedFiles([wide], complete=True)})
    key = FindingKey("single-target-files", (), "shared")
    assert key in keys(round_of(searched, everything=True))
    assert round_of(two(), key).clear == []
    for complete in (False, True):
        again = replace(two(), searched={"shared": SearchedFiles([], complete=complete)})
        assert (key in round_of(again, key, everything=True).clear) is complete


def test_a_node_that_left_the_grid_takes_its_findings_along() -> None:
    left = FindingKey("library-hangs", ("compute9",), "data")
    report = round_of(two(), left)
    assert (report.gone, report.clear) == ([left], [])
    renamed = Observation(None, {"new-name": machine("new-name")}, {}, {})
    assert round_of(renamed, left).gone == [left], "this machine has one name"
    asleep = replace(two(), asleep=("compute9",))
    assert round_of(asleep, left).gone == []


def test_nodes_that_nobody_can_ask_are_a_finding_and_close_none() -> None:
    seen = replace(two(), facts={}, down={"compute2": "drained"})
    unreached = FindingKey("watch-nodes-unreached")
    report = round_of(seen, HANGS)
    assert keys(report) == {unreached, FindingKey("node-down", ("compute2",))}
    assert report.clear == report.gone == []
    assert round_of(two(), unreached).clear == [unreached]


def test_what_the_spec_silences_closes_and_information_is_not_told() -> None:
    spec = MACHINES.model_copy(update={"silence": {"library-hangs": "known"}})
    seen = replace(two(libraries={"data": replace(sound(), hangs=True)}), spec=spec)
    report = round_of(seen, HANGS)
    assert HANGS not in keys(report) and HANGS in report.clear
    resync = two(
        arrays=[{"name": "md0", "level": "raid1", "state": "clean", "wanted": 2, "action": "resync"}]
    )
    assert not [each for each in round_of(resync, everything=True).found if each.level == "info"]
    only_errors = round_report(
        two(mounts=[mount("/a", hangs=True)]), CHEAP, (), everything=False, level="error"
    )
    assert only_errors.found == []
    hung = FindingKey("mount-hangs", ("compute2",), "/a")
    again = round_report(
        two(mounts=[mount("/a", hangs=True)]), CHEAP, [hung], everything=False, level="error"
    )
    assert again.clear == [hung], "what is not watched any more closes"


def test_a_scheduler_that_is_silent_says_nothing_of_its_nodes() -> None:
    down = FindingKey("node-down", ("compute2",))
    report = round_of(replace(two(), scheduler_silent="scontrol has not answered"), down)
    assert keys(report) == {FindingKey("scheduler-silent")}
    assert report.clear == []


def test_a_server_that_is_down_is_told_where_no_target_of_it_is() -> None:
    def server(name: str, *, up: bool) -> Server:
        return Server(name=name, up=up, state="up" if up else "gone")

    def target(name: str, server: str, *, up: bool) -> TargetHealth:
        return TargetHealth(name=name, server=server, up=up, state="FULL" if up else "DISCONN")

    lustre = Health(
        condition=Condition.BROKEN,
        servers=[server("oss1", up=False), server("oss2", up=True)],
        targets=[target("OST0", "oss1", up=False), target("OST1", "oss2", up=True)],
    )
    assert lustre.away == {"OST0": "DISCONN"}
    moosefs = Health(
        condition=Condition.DEGRADED, servers=[server("disk1", up=False), server("disk2", up=True)]
    )
    assert moosefs.away == {"disk1": "gone"}
    assert Health(condition=Condition.HEALTHY, servers=[server("oss1", up=True)]).away == {}
    assert Health(condition=Condition.SILENT).away is None
