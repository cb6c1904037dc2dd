"""Servers start again one after the other, and the file system is served all the while."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.filesystems.scale.administration.command import run
from gridwright.filesystems.scale.administration.desired import ScaleCluster
from gridwright.filesystems.scale.administration.failure import ScaleError
from gridwright.filesystems.scale.administration.order import ScaleCommand
from gridwright.filesystems.scale.administration.restarting import running_values
from tests.support.scale_double.cluster import Cluster
from tests.support.scale_double.in_process import InProcess
from tests.support.scale_double.wanted import wanted_of


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
