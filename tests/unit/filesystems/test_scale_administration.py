"""A cluster is made, changed and mended by the commands of Scale, and nothing that is right is touched."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.filesystems.kind import ClusterMachine
from gridwright.filesystems.scale.administration.command import known_remotes, main, run, running_values
from gridwright.filesystems.scale.administration.desired import (
    DesiredBucket,
    DesiredRemote,
    DesiredSetting,
    ScaleCluster,
)
from gridwright.filesystems.scale.administration.difference import Difference, difference
from gridwright.filesystems.scale.administration.observed import (
    ObservedCluster,
    ScaleError,
    encoded,
    records,
    same_value,
)
from gridwright.filesystems.scale.administration.order import ScaleCommand, commands
from gridwright.filesystems.scale.cluster import scale_cluster
from gridwright.filesystems.scale.model import ScaleFileSystem
from gridwright.node_programs.one_file import NodeProgram
from gridwright.providers.site.provider import cluster_documents
from gridwright.spec import parse_spec
from tests.support.oldest_python import beyond_python_3_9
from tests.support.scale_double.cluster import Cluster, Node
from tests.support.scale_double.command import install, read, write
from tests.support.scale_double.in_process import InProcess
from tests.support.scale_double.wanted import wanted_of


def bring(wanted: ScaleCluster, cluster: Cluster, **options: bool) -> list[str]:
    """Bring a cluster to what is wanted; the names of what was run."""
    done: list[ScaleCommand] = []
    run(wanted, InProcess(cluster), done, **options)
    return [each.name for each in done]


def names(wanted: ScaleCluster) -> list[str]:
    return [each.name for each in wanted.nodes]


def observed(wanted: ScaleCluster, cluster: Cluster) -> ObservedCluster:
    return InProcess(cluster).observe(names(wanted))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("disks")


def emptied(place: Path) -> None:
    for each in place.iterdir():
        each.write_text("empty")


sizes = st.tuples(st.integers(1, 4), st.integers(0, 4), st.integers(1, 3))


@settings(max_examples=25, deadline=None)
@given(before=sizes, more=sizes, interrupted=st.integers(0, 12), data=st.data())
def test_a_cluster_becomes_what_is_wanted_however_far_it_had_come(
    place: Path,
    before: tuple[int, int, int],
    more: tuple[int, int, int],
    interrupted: int,
    data: st.DataObject,
) -> None:
    emptied(place)
    first = wanted_of(place, *before)
    cluster = Cluster()
    # A first run that was cut off after some commands goes on where it was.
    started = InProcess(cluster)
    for command in difference(first, started.observe(names(first))).commands[:interrupted]:
        started.carry_out(command)
    bring(first, cluster)
    assert bring(first, cluster) == []
    # Nodes whose daemon died come back.
    for name in data.draw(st.lists(st.sampled_from(sorted(cluster.nodes)), unique=True)):
        cluster.nodes[name].daemon = False
    cluster.settle()
    bring(first, cluster)
    assert all(cluster.state_of(name) == "active" for name in cluster.nodes)
    # It grows: pairs of servers, nodes, disks.
    larger = wanted_of(place, *(max(old, new) for old, new in zip(before, more, strict=True)))
    kept = set(cluster.nsds)
    bring(larger, cluster)
    assert bring(larger, cluster) == []
    assert kept <= set(cluster.nsds)
    assert {each.name for each in larger.nsds} == set(cluster.nsds)
    assert set(cluster.filesystems["lake"].mounted) == {each.name for each in larger.nodes}


def test_a_first_run_is_what_is_written_down_and_a_second_changes_nothing(tmp_path: Path) -> None:
    wanted = wanted_of(tmp_path, 2, 3, 2)
    cluster = Cluster()
    names = bring(wanted, cluster)
    assert names == [
        *("mmcrcluster", "mmcrnodeclass", "mmcrnodeclass", "mmchlicense", "mmchlicense", "mmcrnsd"),
        *("mmchconfig", "mmchconfig", "mmchconfig", "mmstartup", "mmstartup", "mmcrfs", "mmmount"),
    ]
    calls = len(cluster.calls)
    assert bring(wanted, cluster) == []
    assert len(cluster.calls) == calls


def test_a_disk_of_another_cluster_is_refused_and_keeps_its_id(tmp_path: Path) -> None:
    wanted = wanted_of(tmp_path, 1, 1, 1)
    taken = Path(wanted.nsds[1].device)
    taken.write_text("NSD payroll of another")
    cluster = Cluster()
    assert run(wanted, InProcess(Cluster()), []).commands == ()
    # Commands themselves refuse it, too.
    with pytest.raises(ScaleError, match="refers to an existing NSD"):
        for command in commands(wanted):
            InProcess.carry_out(InProcess(cluster), command)
    assert taken.read_text() == "NSD payroll of another"


def test_a_disk_that_holds_something_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    """mmcrnsd would write over it: an ID of an NSD is all that it looks for."""
    wanted = wanted_of(tmp_path, 1, 1, 2)
    cluster = Cluster()
    for index, holds in ((1, "ext4"), (3, "LVM2_member")):
        Path(wanted.nsds[index].device).write_text(holds)
    found = run(wanted, InProcess(cluster), [])
    assert (found.commands, cluster.calls, len(found.refusals)) == ((), [], 2)
    assert f"{wanted.nsds[1].device} on nsd2 holds ext4" in found.refusals[0]
    assert "holds LVM2_member" in found.refusals[1]
    for index in (1, 3):
        Path(wanted.nsds[index].device).write_text("empty")
    bring(wanted, cluster)
    # Disks that are the file system's are looked at no more, and a new one is.
    larger = wanted_of(tmp_path, 1, 1, 3)
    Path(larger.nsds[-1].device).write_text("xfs")
    assert "holds xfs" in run(larger, InProcess(cluster), []).refusals[0]


def test_a_disk_that_a_server_of_its_pair_does_not_have_is_told(tmp_path: Path) -> None:
    """With one way to it, it would go with that server."""

    class OneWay(Cluster):
        def read_device(self, server: str, device: str) -> str | None:
            return None if server == "nsd2" else super().read_device(server, device)

    wanted, cluster = wanted_of(tmp_path, 1, 1, 1), OneWay()
    with pytest.raises(ScaleError, match=f"{wanted.nsds[0].device} on nsd2"):
        bring(wanted, cluster)
    assert cluster.calls == []


def test_a_server_that_lost_its_way_to_a_disk_is_told_until_it_has_it_again(tmp_path: Path) -> None:
    class Cut(Cluster):
        is_cut = False

        def read_device(self, server: str, device: str) -> str | None:
            return None if self.is_cut and server == "nsd2" else super().read_device(server, device)

    wanted, cluster = wanted_of(tmp_path, 1, 1, 1), Cut()
    bring(wanted, cluster)
    assert run(wanted, InProcess(cluster), []).notes == ()
    cluster.is_cut = True
    (note,) = run(wanted, InProcess(cluster), []).notes
    assert note.startswith("nsd2 does not see grid_lake_p1_v01, grid_lake_p1_v02 (2 of its disks)")


def test_another_cluster_on_the_node_is_left_alone(tmp_path: Path) -> None:
    cluster = Cluster()
    bring(wanted_of(tmp_path, 1, 1, 1), cluster)
    other = replace(wanted_of(tmp_path, 1, 1, 1), name="other")
    found = difference(other, observed(other, cluster))
    assert found.commands == ()
    assert "left alone" in found.refusals[0]


def test_a_setting_that_needs_the_daemon_down_waits_for_consent(tmp_path: Path) -> None:
    wanted = wanted_of(tmp_path, 1, 2, 1)
    cluster = Cluster()
    bring(wanted, cluster)
    larger = replace(
        wanted,
        settings=(
            DesiredSetting(parameter="maxblocksize", value="8M", needs_down=True),
            *(each for each in wanted.settings if each.parameter != "maxblocksize"),
        ),
    )
    found = difference(larger, observed(larger, cluster))
    assert found.commands == ()
    assert "maxblocksize changes only while the daemon is down" in found.notes[0]
    names = bring(larger, cluster, may_stop=True)
    assert names == ["mmumount", "mmshutdown", "mmchconfig", "mmstartup", "mmstartup", "mmmount"]
    assert set(cluster.filesystems["lake"].mounted) == set(cluster.nodes)


@pytest.mark.parametrize(("pairs", "dead", "goes_on"), [(1, 1, True), (2, 1, True), (2, 2, False)])
def test_a_server_of_a_pair_may_die(tmp_path: Path, pairs: int, dead: int, goes_on: bool) -> None:
    wanted = wanted_of(tmp_path, pairs, 2, 2)
    cluster = Cluster()
    bring(wanted, cluster)
    for number in range(1, dead + 1):
        cluster.nodes[f"nsd{number}"].alive = False
    cluster.settle()
    assert ("node1" in cluster.filesystems["lake"].mounted and cluster.served("lake")) is goes_on
    for each in cluster.nodes.values():
        each.alive = True
    bring(wanted, cluster)
    assert bring(wanted, cluster) == []


def test_with_two_copies_a_whole_pair_may_die(tmp_path: Path) -> None:
    cluster = Cluster()
    bring(wanted_of(tmp_path, 2, 2, 2, replicas=2), cluster)
    for number in (1, 2):
        cluster.nodes[f"nsd{number}"].alive = False
    cluster.settle()
    assert "node1" in cluster.filesystems["lake"].mounted


def test_nodes_and_disks_that_are_not_wanted_are_told_and_left(tmp_path: Path) -> None:
    cluster = Cluster()
    bring(wanted_of(tmp_path, 2, 3, 2), cluster)
    fewer = wanted_of(tmp_path, 2, 1, 1)
    found = difference(fewer, observed(fewer, cluster))
    assert {each.name for each in found.commands} <= {"mmchnodeclass"}
    assert any("mmdelnode -N node3" in each for each in found.notes)
    assert any("NSD grid_lake_p2_v04" in each for each in found.notes)


@pytest.fixture
def double(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Commands as programs, and the file of their state."""
    install(tmp_path / "bin", tmp_path / "state.json")
    yield tmp_path / "bin", tmp_path / "state.json"


def test_the_program_of_nodes_makes_a_cluster_by_real_commands(
    double: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    directory, state = double
    monkeypatch.setenv("PATH", str(directory), prepend=os.pathsep)
    described = tmp_path / "cluster.json"
    described.write_text(json.dumps(wanted_of(tmp_path, 1, 1, 1).document()))
    words = [str(described), "--bin", str(directory), "--lock", str(tmp_path / "lock")]
    assert main([*words, "--check"]) == 0
    assert json.loads(capsys.readouterr().out)["changed"] is False
    assert not read(state).name
    assert main(words) == 0
    first = json.loads(capsys.readouterr().out)
    assert (first["changed"], first["done"], first["error"]) == (True, len(first["planned"]), "")
    assert main(words) == 0
    second = json.loads(capsys.readouterr().out)
    assert (second["changed"], second["planned"]) == (False, [])
    # A server that died is told by its name, and nothing hangs.
    cluster = read(state)
    cluster.nodes["nsd2"].alive = cluster.nodes["nsd2"].daemon = False
    write(state, cluster)
    assert main(words) == 0
    third = json.loads(capsys.readouterr().out)
    assert (third["changed"], third["planned"]) == (False, [])
    assert third["notes"] == ["node nsd2 does not answer: all that is its own waits until it is back"]


def test_a_dead_server_does_not_hold_a_new_pair_up(tmp_path: Path) -> None:
    cluster = Cluster()
    bring(wanted_of(tmp_path, 1, 1, 1), cluster)
    cluster.nodes["nsd2"].alive = False
    cluster.settle()
    assert cluster.filesystems["lake"].mounted == ["nsd1", "node1"]
    larger = wanted_of(tmp_path, 2, 2, 1)
    bring(larger, cluster)
    assert bring(larger, cluster) == []
    assert set(cluster.filesystems["lake"].mounted) == {"nsd1", "nsd3", "nsd4", "node1", "node2"}
    # Votes are counted anew when all are there, and never in part.
    assert [name for name, each in cluster.nodes.items() if each.quorum] == ["nsd1", "nsd2"]
    assert cluster.settings["tiebreakerDisks@"] != "no"
    cluster.nodes["nsd2"].alive = True
    bring(larger, cluster)
    assert [name for name, each in cluster.nodes.items() if each.quorum] == ["nsd1", "nsd2", "nsd3"]
    assert cluster.settings["tiebreakerDisks@"] == "no"


def test_disks_of_a_new_server_that_is_silent_are_told_and_made_later(tmp_path: Path) -> None:
    cluster = Cluster(machines={"nsd4": Node(False, False, alive=False)})
    bring(wanted_of(tmp_path, 1, 1, 1), cluster)
    larger = wanted_of(tmp_path, 2, 1, 1)
    bring(larger, cluster)
    assert "nsd3" in cluster.nodes
    assert len(cluster.nsds) == 2
    found = difference(larger, observed(larger, cluster))
    assert found.commands == ()
    assert "NSD grid_lake_p2_v01 is not made yet: it needs nsd3 and nsd4" in found.notes
    cluster.machines.clear()
    bring(larger, cluster)
    assert len(cluster.nsds) == 4
    assert bring(larger, cluster) == []


@pytest.mark.parametrize("replaced", ["nsd1", "nsd2", "node1"])
def test_a_machine_that_took_a_dead_ones_place_gets_the_configuration(tmp_path: Path, replaced: str) -> None:
    """The first server, too, on which commands are run: it must not make a second cluster."""
    wanted = wanted_of(tmp_path, 1, 1, 1)
    cluster = Cluster()
    bring(wanted, cluster)
    cluster.nodes[replaced].configured = cluster.nodes[replaced].daemon = False
    cluster.settle()
    done = bring(wanted, cluster)
    assert done[0] == "mmsdrrestore"
    assert "mmcrcluster" not in done
    assert set(cluster.filesystems["lake"].mounted) == {"nsd1", "nsd2", "node1"}
    assert bring(wanted, cluster) == []


def test_a_first_run_wants_all_nodes_and_none_of_another_cluster(tmp_path: Path) -> None:
    wanted = wanted_of(tmp_path, 1, 2, 1)
    silent = Node(False, False, alive=False)
    foreign = Node(False, False, foreign="payroll.example.com")
    cluster = Cluster(machines={"nsd2": silent, "node2": foreign})
    found = difference(wanted, observed(wanted, cluster))
    assert found.commands == ()
    assert "node2 is in cluster payroll.example.com" in found.refusals[0]
    assert "ssh from here does not reach nsd2" in found.refusals[1]
    assert bring(wanted, cluster) == []
    assert not cluster.name


def test_a_first_run_waits_until_all_nodes_answer_and_no_longer_than_it_may(tmp_path: Path) -> None:
    wanted = wanted_of(tmp_path, 1, 1, 1)
    cluster = Cluster(machines={"nsd2": Node(False, False, alive=False)})
    paused = []

    def pause(seconds: float) -> None:
        paused.append(seconds)
        if len(paused) == 3:
            cluster.machines.clear()

    InProcess(cluster, pause).wait_until_answering(names(wanted), 50.0)
    assert len(paused) == 3
    assert "mmcrcluster" in bring(wanted, cluster)

    # A cluster that is there is not waited for, and patience ends.
    InProcess(cluster, pause).wait_until_answering(names(wanted), 50.0)
    assert len(paused) == 3
    never = Cluster(machines={"nsd2": Node(False, False, alive=False)})
    InProcess(never, pause).wait_until_answering(names(wanted), 10.0)
    assert 9 <= len(paused) - 3 <= 10


def test_a_cluster_that_lost_its_configuration_is_not_taken_for_none(tmp_path: Path) -> None:
    """Commands that list fail then, too; none of it means that there is nothing."""
    wanted = wanted_of(tmp_path, 2, 1, 1)
    cluster = Cluster()
    bring(wanted, cluster)
    for name in ("nsd1", "nsd2", "nsd3"):
        cluster.nodes[name].alive = False
    cluster.here = "nsd4"
    calls = len(cluster.calls)
    with pytest.raises(ScaleError, match="Not enough CCR quorum nodes"):
        bring(wanted, cluster)
    assert len(cluster.calls) == calls


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("16M", "16777216", True),
        ("1G", "1024M", True),
        ("yes", "YES", True),
        ("16M", "16", False),
        ("", "no", False),
        ("61000-61999", "61000-61999", True),
        ("M", "m", True),
    ],
)
def test_values_are_compared_by_what_they_mean(one: str, other: str, same: bool) -> None:
    assert same_value(one, other) is same


def test_a_file_system_of_another_cluster_is_told_before_and_after(tmp_path: Path) -> None:
    remote = DesiredRemote(
        cluster="big.example.com", contacts=("b1", "b2"), filesystem="fs1", mount_point="/gpfs/fs1"
    )
    wanted = replace(wanted_of(tmp_path, 1, 1, 1), remotes=(remote,))
    cluster = Cluster()
    before = difference(wanted, observed(wanted, cluster))
    bring(wanted, cluster)
    after = difference(wanted, observed(wanted, cluster))
    assert before.notes == after.notes
    assert "mmremotecluster add big.example.com -n b1,b2" in after.notes[0]


def test_columns_that_a_release_lacks_are_named(tmp_path: Path) -> None:
    class Other(InProcess):
        def _run(self, argv: Sequence[str], limit_s: float) -> tuple[int, str, str]:
            status, printed, error = super()._run(argv, limit_s)
            return status, printed.replace("serverList", "servers"), error

    wanted = wanted_of(tmp_path, 1, 1, 1)
    cluster = Cluster()
    bring(wanted, cluster)
    with pytest.raises(ScaleError, match="no column 'serverList'"):
        Other(cluster).observe(names(wanted))


def test_it_runs_on_the_oldest_python_of_nodes(tmp_path: Path) -> None:
    program = NodeProgram("gridwright.filesystems.scale.administration", "Spectrum Scale").archive()
    assert beyond_python_3_9(program, tmp_path) == ""


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"name": "x"}'])
def test_what_describes_no_cluster_is_said_without_a_traceback(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cluster.json").write_text(content)
    assert main([str(tmp_path / "cluster.json"), "--lock", str(tmp_path / "lock")]) == 3
    assert "does not describe a cluster" in capsys.readouterr().err


@given(st.lists(st.dictionaries(st.sampled_from(("a", "b")), st.text("ab:%\n/ é", max_size=8), min_size=2)))
def test_rows_are_read_back_as_they_were(rows: list[dict[str, str]]) -> None:
    printed = "mmlsnsd:nsd:HEADER:version:reserved:reserved:a:b:\n" + "".join(
        f"mmlsnsd:nsd:0:1:::{encoded(each['a'])}:{encoded(each['b'])}:\n" for each in rows
    )
    found = records(printed).get("nsd", [])
    assert [{key: each[key] for key in ("a", "b")} for each in found] == [
        {key: each[key] for key in ("a", "b")} for each in rows
    ]


@given(st.text(max_size=200))
def test_any_text_is_read_without_an_error(text: str) -> None:
    records(text)


# Servers start again one after the other, and the file system is served all the while.


class Served(Cluster):
    """Notes whether files could be reached by all others after each command, and who was down."""

    unserved: list[str]
    down: list[set[str]]

    def settle(self) -> None:
        super().settle()
        if not hasattr(self, "down"):
            self.down, self.unserved = [], []
        self.down.append({name for name in self.nodes if self.state_of(name) != "active"})
        self.unserved += [name for name in self.filesystems if not self.served(name)]


def larger_pool(wanted: ScaleCluster) -> ScaleCluster:
    """The same with another page pool of servers."""
    return replace(
        wanted,
        settings=tuple(
            replace(each, value="2048M")
            if (each.parameter, each.node_class) == ("pagepool", "gridServers")
            else each
            for each in wanted.settings
        ),
    )


def made(wanted: ScaleCluster) -> Served:
    cluster = Served()
    run(wanted, InProcess(cluster), [])
    cluster.down, cluster.unserved = [], []
    return cluster


@settings(max_examples=15, deadline=None)
@given(pairs=st.integers(1, 4), replicas=st.sampled_from((1, 2)), clients=st.integers(1, 3))
def test_one_server_after_the_other_has_the_new_setting(
    tmp_path_factory: pytest.TempPathFactory, pairs: int, replicas: int, clients: int
) -> None:
    place = tmp_path_factory.mktemp("disks")
    wanted = wanted_of(place, pairs, clients, 2, replicas=min(replicas, pairs))
    cluster = made(wanted)
    larger = larger_pool(wanted)
    found = run(larger, InProcess(cluster), [])
    servers = [f"nsd{number}" for number in range(1, 2 * pairs + 1)]
    # It is told, each time, until they started again.
    for notes in (found.notes, run(larger, InProcess(cluster), []).notes):
        assert [each.split()[3] for each in notes if "--may-restart, which" in each] == servers
    planned = run(larger, InProcess(cluster), [], may_restart=True, check=True)
    assert [each.argv[-1] for each in planned.commands if each.name == "mmshutdown"] == servers
    done: list[ScaleCommand] = []
    cluster.down, cluster.unserved = [], []
    run(larger, InProcess(cluster), done, may_restart=True)
    assert [each.argv[-1] for each in done if each.name == "mmshutdown"] == servers
    assert all(len(each) <= 1 for each in cluster.down), "two were down at once"
    assert cluster.unserved == []
    assert set(cluster.filesystems["lake"].mounted) == set(cluster.nodes)
    assert {cluster.nodes[name].running["pagepool"] for name in servers} == {"2048M"}
    # A second run has nothing to do.
    again: list[ScaleCommand] = []
    assert run(larger, InProcess(cluster), again, may_restart=True).notes == ()
    assert again == []


def test_a_server_whose_pair_is_away_stays_up(tmp_path: Path) -> None:
    wanted = wanted_of(tmp_path, 2, 1, 2)
    cluster = made(wanted)
    cluster.nodes["nsd2"].alive = False
    cluster.settle()
    done: list[ScaleCommand] = []
    with pytest.raises(ScaleError, match="nsd1 does not start again now: its pair is not active"):
        run(larger_pool(wanted), InProcess(cluster), done, may_restart=True)
    assert not any(each.name == "mmshutdown" for each in done)
    assert cluster.state_of("nsd1") == "active"


def test_a_server_without_whose_vote_the_cluster_stops_stays_up(tmp_path: Path) -> None:
    """Of five votes two are gone, each of another pair, and all disks are served: a third is too many."""
    wanted = wanted_of(tmp_path, 3, 1, 1)
    cluster = made(wanted)
    assert sum(each.quorum for each in cluster.nodes.values()) == 5
    for name in ("nsd3", "nsd5"):
        assert cluster.nodes[name].quorum
        cluster.nodes[name].alive = False
    cluster.settle()
    assert cluster.served("lake")
    with pytest.raises(
        ScaleError, match="nsd1 does not start again now: the cluster would have 2 of 5 votes"
    ):
        run(larger_pool(wanted), InProcess(cluster), [], may_restart=True)
    assert cluster.state_of("nsd1") == "active"


def test_a_setting_that_a_daemon_does_not_take_stops_at_the_first_server(tmp_path: Path) -> None:
    class Stubborn(Served):
        def settings_of(self, name: str) -> dict[str, str]:
            return {**super().settings_of(name), "pagepool": "1024M"}

    wanted = wanted_of(tmp_path, 2, 1, 1)
    cluster = Stubborn()
    run(wanted, InProcess(cluster), [])
    done: list[ScaleCommand] = []
    with pytest.raises(ScaleError, match="nsd1 started again, and has pagepool otherwise"):
        run(larger_pool(wanted), InProcess(cluster), done, may_restart=True)
    assert [each.argv[-1] for each in done if each.name == "mmshutdown"] == ["nsd1"]
    assert all(cluster.state_of(name) == "active" for name in cluster.nodes)


def test_a_daemon_that_does_not_tell_is_left_alone(tmp_path: Path) -> None:
    class Silent(InProcess):
        def _run(self, argv: Sequence[str], limit_s: float) -> tuple[int, str, str]:
            if argv[-1].endswith("--config"):
                return 127, "", "mmdiag: not found"
            return super()._run(argv, limit_s)

    wanted = wanted_of(tmp_path, 1, 1, 1)
    cluster = made(wanted)
    done: list[ScaleCommand] = []
    run(larger_pool(wanted), Silent(cluster), done, may_restart=True)
    assert [each.name for each in done] == ["mmchconfig"]


@given(st.text(max_size=300))
def test_any_text_of_mmdiag_is_read(text: str) -> None:
    running_values(text)


def test_lines_of_mmdiag_are_read() -> None:
    printed = (
        "\n=== mmdiag: config ===\n   allowDeleteAclOnChmod 1\n"
        " ! pagepool 4294967296\n ! tscCmdPortRange 61000-61999\n"
    )
    assert running_values(printed) == {
        "allowDeleteAclOnChmod": "1",
        "pagepool": "4294967296",
        "tscCmdPortRange": "61000-61999",
    }


# Directories that are caches of buckets are made once, in the order that Scale takes.


def bucket(keys: Path, name: str, **fields: str) -> DesiredBucket:
    given = {"bucket": "lake-raw", "prefix": "", "endpoint": "https://s3.example.com:8443", "region": ""}
    return DesiredBucket(filesystem="lake", fileset=name, mode="ro", keys=str(keys), **{**given, **fields})


def commands_run(wanted: ScaleCluster, cluster: Cluster) -> list[tuple[str, ...]]:
    done: list[ScaleCommand] = []
    run(wanted, InProcess(cluster), done)
    return [(each.name, *each.argv[1:]) for each in done]


def test_a_gateway_then_keys_then_the_directory_and_never_again(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("access:secret\\n")
    plain = wanted_of(tmp_path, 2, 1, 1)
    wanted = replace(plain, buckets=(bucket(keys, "raw"),))
    cluster = Cluster()
    assert commands_run(wanted, cluster)[-3:] == [
        ("mmchnode", "--gateway", "-N", "nsd1,nsd2"),
        ("mmafmcoskeys", "lake-raw:s3.example.com", "set", "--keyfile", str(keys)),
        (
            *("mmafmcosconfig", "lake", "raw", "--endpoint", "https://s3.example.com:8443", "--object-fs"),
            *("--bucket", "lake-raw", "--mode", "ro"),
        ),
    ]
    assert commands_run(wanted, cluster) == []
    # Another one beside it, of a region and a prefix.
    more = bucket(keys, "out", prefix="out/a", region="eu-central-1", bucket="lake-out")
    done = commands_run(replace(wanted, buckets=(*wanted.buckets, more)), cluster)
    assert done[1][1] == "lake-out:eu-central-1@s3.example.com"
    assert done[2][4] == "https://eu-central-1@s3.example.com:8443"
    assert done[2][-4:] == ("--prefix", "out/a", "--mode", "ro")
    assert set(cluster.filesets) == {"raw", "out"}
    assert not any("secret" in word for call in cluster.calls for word in call)
    # It left the spec: what is cached stays.
    assert commands_run(plain, cluster) == []
    assert set(cluster.filesets) == {"raw", "out"}


def test_what_is_only_looked_at_is_not_made(tmp_path: Path) -> None:
    plain, cluster = wanted_of(tmp_path, 1, 1, 1), Cluster()
    commands_run(plain, cluster)
    wanted = replace(plain, buckets=(bucket(tmp_path / "keys", "raw"),))
    found = run(wanted, InProcess(cluster), [], check=True)
    assert [each.name for each in found.commands] == ["mmchnode", "mmafmcoskeys", "mmafmcosconfig"]
    assert cluster.filesets == {}


def test_a_file_of_keys_that_is_none_is_told(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("nothing")
    wanted = replace(wanted_of(tmp_path, 1, 1, 1), buckets=(bucket(keys, "raw"),))
    with pytest.raises(ScaleError, match="the keys of bucket lake-raw"):
        commands_run(wanted, Cluster())


# A cluster of clients mounts a file system of another one, as soon as that one lets it in.

KEY = "clusterName=big.example.com\\nclusterID=42\\npublicKey=00aa11bb22cc33dd"
SPEC = f"""\
name: small
provider: site
scheduler: {{type: slurm}}
nodes: {{compute: {{hosts: "c[1-4]"}}}}
filesystems:
  lake:
    type: scale
    path: /gpfs/lake
    remote: {{cluster: big.example.com, contacts: [b1, b2], filesystem: fs1, key: "{KEY}"}}
"""


def clients(count: int, filesystem: str = "fs1") -> ScaleCluster:
    remote = {"cluster": "big.example.com", "contacts": ["b1", "b2"], "filesystem": filesystem}
    spec = ScaleFileSystem.model_validate(
        {"type": "scale", "path": "/gpfs/lake", "remote": {**remote, "key": "publicKey=" + "00" * 16}}
    )
    nodes = [
        ClusterMachine(name=f"c{number}", address=f"c{number}", is_server=False)
        for number in range(1, count + 1)
    ]
    return scale_cluster("small", "lake", spec, nodes, ())


def outcome_and_names(wanted: ScaleCluster, cluster: Cluster) -> tuple[Difference, list[str]]:
    done: list[ScaleCommand] = []
    found = run(wanted, InProcess(cluster), done)
    return found, [each.name for each in done]


@given(st.integers(1, 9))
def test_it_is_made_known_once_and_mounted_as_soon_as_it_may_be(count: int) -> None:
    wanted, cluster = clients(count), Cluster()
    assert len(wanted.quorum) % 2 == 1
    found, done = outcome_and_names(wanted, cluster)
    assert done[-2:] == ["mmremotecluster", "mmremotefs"]
    assert cluster.remote_clusters == {"big.example.com": ["b1", "b2"]}
    assert cluster.remote_filesystems == {"lake": ["fs1", "big.example.com", "/gpfs/lake"]}
    assert "mmauth grant small-lake -f fs1" in found.notes[-1]
    assert "not authorized" in found.notes[-1]
    # Again, while nobody has let it in: nothing but the same words.
    again, done = outcome_and_names(wanted, cluster)
    assert (done, again.notes) == ([], found.notes)
    cluster.granted = True
    found, done = outcome_and_names(wanted, cluster)
    assert (done, found.notes) == (["mmmount"], ())
    assert cluster.remote_mounted == sorted(f"c{number}" for number in range(1, count + 1))
    assert outcome_and_names(wanted, cluster) == (Difference(()), [])


def test_a_name_that_is_another_file_system_is_left_alone() -> None:
    cluster = Cluster(granted=True)
    outcome_and_names(clients(1), cluster)
    with pytest.raises(ScaleError, match=r"lake is file system fs1 of cluster \S+ here, and not fs2"):
        outcome_and_names(clients(1, "fs2"), cluster)
    assert cluster.remote_filesystems["lake"][0] == "fs1"


def test_nodes_of_a_site_are_a_cluster_of_clients_where_a_key_is_at_hand() -> None:
    (found,) = cluster_documents(parse_spec(SPEC))
    assert (found["name"], found["first"]) == ("lake", "c1")
    wanted = ScaleCluster.from_document(found["document"])
    assert wanted.servers == ()
    assert wanted.remotes[0].key.splitlines()[0] == "clusterName=big.example.com"
    without = SPEC.replace(f', key: "{KEY}"', "")
    assert cluster_documents(parse_spec(without)) == []


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_list_of_remotes_is_read(clusters: str, filesystems: str) -> None:
    known_remotes(clusters, filesystems)
