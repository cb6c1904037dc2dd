"""Results of checks: nodes that came out alike are one, the gravest come first, servers have their word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gridwright.cli.prove.doctor import _sum, document
from gridwright.doctor.access import access_to
from gridwright.doctor.check import CheckResult, SearchedFiles, results_of
from gridwright.doctor.checks import all_checks, needs_pairs
from gridwright.doctor.examination import filesystem_requests
from gridwright.doctor.facts.filesystems import health
from gridwright.errors import Finding, GridwrightError
from gridwright.grid.grid import Grid
from gridwright.grid.nodes import names_in_set
from gridwright.spec import parse_spec
from gridwright.spec.linked import changelog_user
from tests.support.doctor_grid import MACHINES, SPEC, grid, machine, mount, node, results, sound

EVICTED = {
    "level": "error",
    "name": "client-evicted",
    "text": "evicted by scratch-OST0001",
    "remedy": "see dmesg",
}


def by_name(found: list[CheckResult], name: str) -> list[CheckResult]:
    return [each for each in found if each.name == name]


def test_every_check_is_told_wrong_ones_first_and_the_gravest_of_them() -> None:
    seen = grid(node("compute1"), node("compute2", sound(hangs=True, inodes_free=1)))
    found = results(seen)
    assert {each.name for each in found} == {check.name for check in all_checks()}
    wrong = [each for each in found if not each.ok]
    assert found[: len(wrong)] == wrong
    levels = [each.level for each in wrong]
    assert levels == sorted(levels, key=["error", "warning", "info"].index)


def test_what_nodes_find_of_a_file_system_as_its_clients_is_told_under_its_own_name() -> None:
    nodes = [machine(f"compute{n}", health={"shared": [EVICTED] if n < 3 else []}) for n in (1, 2, 3)]
    (evicted,) = by_name(results(grid(*nodes, spec=MACHINES)), "client-evicted")
    assert (evicted.ok, evicted.level, evicted.nodes) == (False, "error", ("compute1", "compute2"))
    assert evicted.found == "file system shared: evicted by scratch-OST0001"


def test_what_servers_find_themselves_is_told_too_and_can_be_silenced() -> None:
    finding = Finding("warning", "data-undergoal", "3 chunks have fewer copies", "start the servers")
    seen = replace(grid(node("compute1")), filesystems={"shared": [finding]})
    (told,) = by_name(results(seen), "data-undergoal")
    assert (told.ok, told.nodes, told.remedy) == (False, (), "start the servers")
    silent = SPEC.model_copy(update={"silence": {"data-undergoal": "a server is away"}})
    (told,) = by_name(results(replace(seen, spec=silent)), "data-undergoal")
    assert told.silenced == "a server is away"


def test_a_node_that_cannot_ask_a_file_system_is_named_unless_its_library_hangs() -> None:
    unknown = {"health:shared": "lctl cannot be started: No such file or directory"}
    (check,) = [each for each in all_checks() if each.name == "filesystem-silent"]
    (told,) = results_of(grid(machine("compute1", unknown=unknown), spec=MACHINES), [check])
    assert (told.ok, told.nodes) == (False, ("compute1",))
    assert "lctl cannot be started" in told.found
    hangs = {"data": sound(hangs=True), "work": sound()}
    (told,) = results_of(grid(machine("compute1", unknown=unknown, libraries=hangs), spec=MACHINES), [check])
    assert (told.ok, told.applies) == (True, False)


AWAY = {"scratch-OST0001": "DISCONN"}


def test_what_hangs_since_targets_are_away_is_no_fault_of_its_own() -> None:
    hangs = {"data": sound(hangs=True, source="mgs:/scratch"), "work": sound(path="/scratch/work")}
    alone = {
        each.name for each in results(grid(machine("n1", libraries=hangs), spec=MACHINES)) if not each.ok
    }
    seen = grid(machine("n1", libraries=hangs, targets_away={"shared": AWAY}), spec=MACHINES)
    told = by_name(results(seen), "library-hangs")
    assert alone - {each.name for each in results(seen) if not each.ok} == {"library-hangs"}
    assert any("does not answer: targets are away: scratch-OST0001 (DISCONN)" in each.found for each in told)
    elsewhere = grid(machine("n1", libraries=hangs, targets_away={"disk": AWAY}), spec=MACHINES)
    assert [each.ok for each in by_name(results(elsewhere), "library-hangs")] == [False, True]


@pytest.mark.parametrize(
    ("state", "name"),
    [({"hangs": True}, "mount-hangs"), ({"broken": "Input/output error"}, "mount-broken")],
)
def test_without_a_spec_all_mounts_of_targets_that_are_away_follow_from_that(
    state: dict[str, object], name: str
) -> None:
    mounts = [
        mount(point, type="lustre", local=False, source="mgs:/scratch", **state) for point in ("/a", "/b")
    ]
    for away, expected in (({}, [False, False]), ({"/a": AWAY}, [True])):
        seen = grid(machine("n1", libraries={}, mounts=mounts, targets_away=away), spec=None)
        assert [each.ok for each in by_name(results(seen), name)] == expected


def test_without_a_spec_a_file_system_that_does_not_say_how_it_is_is_named() -> None:
    unknown = {"health:/a": "no answer for 12 s"}
    for hangs, ok in ((False, False), (True, True)):
        seen = grid(
            machine("n1", libraries={}, mounts=[mount("/a", hangs=hangs)], unknown=unknown), spec=None
        )
        (told,) = by_name(results(seen), "filesystem-silent")
        assert (told.ok, "no answer for 12 s" in told.found) == (ok, True)


def test_files_that_lie_badly_are_not_held_against_servers_that_serve() -> None:
    wide = Finding("warning", "single-target-files", "large files on one target", "move them")
    seen = replace(
        grid(node("compute1"), spec=MACHINES), searched={"shared": SearchedFiles([wide], complete=True)}
    )
    (told,) = by_name(results(seen), "single-target-files")
    assert "serves" not in told.expected
    assert "targets" in told.expected


def test_the_last_line_counts_what_was_told_and_not_names_of_checks() -> None:
    seen = grid(node("n1", sound(options="rw,nodev,flock")), node("n2", sound(options="rw,nosuid,flock")))
    warnings = [each for each in results(seen) if not each.ok and each.level == "warning"]
    assert len(by_name(warnings, "library-suid")) == 2
    assert f" {len(warnings)} warnings" in _sum(results(seen), seen)


def test_a_file_system_is_looked_at_as_the_spec_describes_it() -> None:
    described = filesystem_requests(MACHINES)
    assert set(described) == {"shared", "disk"}
    names = {each.name for each in health(described["shared"] | {"path": "/no/such/mount"}).findings}
    assert names == set()
    assert set(filesystem_requests(SPEC)) == set()


def test_metadata_servers_are_told_which_archives_repositories_are() -> None:
    spec = parse_spec(
        "name: demo\nnodes: {compute: {count: 3, cores: 4, memory: 32 GiB}}\n"
        "filesystems: {shared: {type: lustre, path: /no/such/mount, source: '10.0.0.1@tcp:/scratch'}}\n"
        "libraries: {data: {filesystem: shared, path: data}, work: {filesystem: shared, path: work}}\n"
        "repositories: {kept: {library: data, bucket: s3://site/kept, hsm_archive: 4}, "
        "made: {library: work, bucket: s3://site/made, export: {by: changelog}}}\nscheduler: {type: slurm}\n"
    )
    described = filesystem_requests(spec)
    assert described["shared"]["hsm_archives"] == [1, 4]
    assert described["shared"]["changelog_users"] == [changelog_user(spec, "made")]
    # This machine serves no MDT, so it knows nothing of agents.
    assert health(described["shared"]).findings == []


def test_the_document_names_nodes_folded_and_is_met_where_no_error_counts() -> None:
    refuses = sound(refused="Disk quota exceeded")
    found = results(grid(*(node(f"compute{n}", refuses) for n in range(1, 17))))
    written = document(found)
    (wrong,) = [each for each in written["checks"] if not each["ok"] and each["level"] == "error"]
    assert (wrong["name"], wrong["nodes"]) == ("library-refuses", "compute[1-16]")
    assert written["met"] is False
    silenced = [replace(each, silenced="a test") if not each.ok else each for each in found]
    assert document(silenced)["met"] is True
    assert {each["name"] for each in document(silenced)["silenced"]} >= {"library-refuses"}


@pytest.mark.parametrize(
    ("only", "needed"),
    [((), True), (("flock-alone",), True), (("clock-apart",), True), (("disk-full",), False)],
)
def test_nodes_are_paired_only_for_checks_that_need_it(only: tuple[str, ...], needed: bool) -> None:
    assert needs_pairs(only) is needed


def test_a_set_of_nodes_is_chosen_in_the_grids_order() -> None:
    names = [f"compute{n}" for n in range(1, 12)]
    assert names_in_set(names, "compute[10-11,2]", "--nodes") == ["compute2", "compute10", "compute11"]
    for wrong in ("compute[12-13]", "compute[", ""):
        with pytest.raises(GridwrightError) as caught:
            names_in_set(names, wrong, "--nodes")
        assert caught.value.problems[0].where == "--nodes"


SITE = """\
nodes: {compute: {hosts: "node[1-2]"}}
filesystems: {disk: {type: local, path: /data}}
scheduler: {type: slurm}
"""


def test_named_nodes_are_looked_at_also_while_their_scheduler_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    access = access_to(Grid.open(parse_spec(SITE)))
    assert access is not None
    assert access.scheduler_silent == "scontrol cannot be started: No such file or directory"

    with pytest.raises(GridwrightError, match="scontrol cannot be started"):
        access_to(Grid.open(parse_spec(SITE.replace('hosts: "node[1-2]"', "count: 2"))))
