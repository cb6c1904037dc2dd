"""A cluster is made, changed and mended by the commands of Scale, and nothing that is right is touched."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.filesystems.scale.administration.applying import Administration, ScaleError
from gridwright.filesystems.scale.administration.command import main, run
from gridwright.filesystems.scale.administration.difference import difference
from gridwright.filesystems.scale.administration.observed import ObservedCluster, observe
from gridwright.filesystems.scale.administration.order import ScaleCommand
from gridwright.filesystems.scale.administration.wanted import ScaleCluster, WantedSetting
from gridwright.filesystems.scale.administration.y_format import encoded, records
from gridwright.node_programs.one_file import one_file
from tests.support.oldest_python import beyond_python_3_9
from tests.support.scale_double.cluster import Cluster, Refused
from tests.support.scale_double.command import install, read, write
from tests.support.scale_double.rows import listed
from tests.support.scale_double.wanted import wanted_of


class InProcess(Administration):
    """Commands of a cluster that is a value of this process; waiting is no waiting."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(pause=lambda _: None)
        self.cluster = cluster

    def observe(self) -> ObservedCluster:
        def ask(name: str, *words: str) -> str | None:
            try:
                return listed(self.cluster, name, words)
            except Refused:
                return None

        return observe(ask)

    def carry_out(self, command: ScaleCommand) -> None:
        try:
            self.cluster.run(command.name, command.argv[1:], command.stanzas)
        except Refused as error:
            raise ScaleError(str(error)) from None


def bring(wanted: ScaleCluster, cluster: Cluster, **options: bool) -> list[str]:
    """Bring a cluster to what is wanted; the names of what was run."""
    done: list[ScaleCommand] = []
    run(wanted, InProcess(cluster), done, **options)
    return [each.name for each in done]


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
    for command in difference(first, started.observe()).commands[:interrupted]:
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
    with pytest.raises(ScaleError, match="refers to an existing NSD"):
        bring(wanted, Cluster())
    assert taken.read_text() == "NSD payroll of another"


def test_another_cluster_on_the_node_is_left_alone(tmp_path: Path) -> None:
    cluster = Cluster()
    bring(wanted_of(tmp_path, 1, 1, 1), cluster)
    other = replace(wanted_of(tmp_path, 1, 1, 1), name="other")
    found = difference(other, InProcess(cluster).observe())
    assert found.commands == ()
    assert "left alone" in found.refusals[0]


def test_a_setting_that_needs_the_daemon_down_waits_for_consent(tmp_path: Path) -> None:
    wanted = wanted_of(tmp_path, 1, 2, 1)
    cluster = Cluster()
    bring(wanted, cluster)
    larger = replace(
        wanted,
        settings=(
            WantedSetting(parameter="maxblocksize", value="8M", needs_down=True),
            *(each for each in wanted.settings if each.parameter != "maxblocksize"),
        ),
    )
    found = difference(larger, InProcess(cluster).observe())
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
    found = difference(fewer, InProcess(cluster).observe())
    assert {each.name for each in found.commands} <= {"mmchnodeclass"}
    assert any("mmdelnode -N node3" in each for each in found.notes)
    assert any("NSD grid_lake_p2_v04" in each for each in found.notes)


@pytest.fixture
def double(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Commands as programs, and the file of their state."""
    install(tmp_path / "bin", tmp_path / "state.json")
    yield tmp_path / "bin", tmp_path / "state.json"


def test_the_program_of_nodes_makes_a_cluster_by_real_commands(
    double: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory, state = double
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
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr("gridwright.filesystems.scale.administration.applying.ACTIVE_S", 0.0)
        patch.setattr(Administration.wait_until_active, "__defaults__", (0.0,))
        assert main(words) == 3
    assert "nsd2 is unknown" in json.loads(capsys.readouterr().out)["error"]


def test_it_runs_on_the_oldest_python_of_nodes(tmp_path: Path) -> None:
    program = one_file("gridwright.filesystems.scale.administration", "Spectrum Scale")
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
