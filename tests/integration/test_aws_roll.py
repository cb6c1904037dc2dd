"""Machines are replaced on a running grid: the real `up`, the real program of the head node, moto's AWS."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridwright.providers.aws.layout import Role
from tests.support.aws_cloud import AwsCloud, aws_cloud
from tests.support.aws_faults import Faults
from tests.support.aws_grid import FSX, LUSTRE, Grid, grid_of
from tests.support.aws_permissions import ROLL, RenderedGrid, action_name
from tests.support.aws_roller import Head
from tests.support.command import Command
from tests.support.operator_permissions import judged

FOUR = FSX.replace("count: 2", "count: 4")


@pytest.fixture
def cloud() -> Iterator[AwsCloud]:
    with aws_cloud() as made:
        yield made


@pytest.fixture
def before(cloud: AwsCloud) -> Iterator[Faults]:
    with Faults.before(cloud.direct) as faults:
        yield faults


def head_of(spec: str, cloud: AwsCloud, before: Faults, place: Path) -> Head:
    head = Head(cloud, spec, place / "head", before.url)
    head.claim()
    return head


@pytest.mark.thorough
def test_a_change_of_the_type_replaces_nodes_when_their_jobs_have_ended(
    gridwright: Command, cloud: AwsCloud, before: Faults, tmp_path: Path
) -> None:
    grid = grid_of(FOUR, gridwright, cloud, tmp_path)
    with judged(cloud, FOUR):
        grid.done("up")
        head = head_of(FOUR, cloud, before, tmp_path)
        old = head.owners()
        head.jobs("compute3", "17")
        grid.edit("m6i.4xlarge", "m6i.8xlarge")
        up = grid.start("up", "--json")
        up.says("4 nodes are replaced, each when its jobs have ended")
        up.says("jobs have no limit of time")
        with head.running():
            up.says("compute3 has 1 jobs, for 1.0 h at most")
            assert head.owners()["compute3"] == old["compute3"]
            status = grid("status", "--json").json
            (rolling,) = status["rolling"]
            assert (rolling["group"], rolling["total"]) == ("demo-compute", 4)
            head.jobs("compute3")
            ended = up.end()
        assert ended.status == 0, ended.err
    new = head.owners()
    assert not set(old.values()) & set(new.values())
    assert [head.node(name)["reason"] for name in old] == [""] * 4
    machines = {each["name"]: each for each in grid.done("status", "--json").json["machines"]}
    assert {machines[name]["type"] for name in old} == {"m6i.8xlarge"}
    assert "nothing is changed" in grid.done("up").out
    _may_do_what_it_did(before, tmp_path)


def _may_do_what_it_did(before: Faults, directory: Path) -> None:
    (directory / "rendered.yaml").write_text(FOUR)
    rendered = RenderedGrid.of(directory / "rendered.yaml")
    assert rendered.denied(Role.HEAD, before.calls, "i-0") == []
    assert {action_name(each) for each in before.calls} == ROLL
    for role in (Role.COMPUTE, Role.LOGIN):
        assert rendered.denied(role, [e for e in before.calls if "Terminate" in e.action][:1], "i-0") != []


@pytest.mark.few(1)
@pytest.mark.parametrize("is_mended", [False, True], ids=["halted", "mended"])
def test_the_first_node_that_fails_stops_it_and_the_grid_works_on(
    gridwright: Command, cloud: AwsCloud, before: Faults, tmp_path: Path, is_mended: bool
) -> None:
    grid = grid_of(FOUR, gridwright, cloud, tmp_path)
    grid.done("up")
    head = head_of(FOUR, cloud, before, tmp_path)
    old = head.owners()
    cloud.machines.failing_types["m6i.8xlarge"] = "the playbook failed: no driver for this type"
    grid.edit("m6i.4xlarge", "m6i.8xlarge")
    up = grid.start("up")
    with head.running():
        ended = up.end()
    assert ended.status == 3
    assert "no driver for this type" in ended.err
    for _ in range(4):
        said = head.minute()
    assert "halted: compute" in said
    new = head.owners()
    assert sum(new[name] != old[name] for name in old) == 1
    assert sum(bool(head.node(name)["reason"]) for name in old) == 1
    status = grid("status")
    assert status.status == 3
    assert "no other node is replaced until it works" in status.out
    if not is_mended:
        return
    grid.edit("m6i.8xlarge", "m6i.12xlarge")
    up = grid.start("up")
    with head.running():
        assert up.end().status == 0
    assert not set(head.owners().values()) & {*old.values(), *new.values()}


@pytest.mark.thorough
def test_nobody_has_to_watch_and_a_head_node_that_is_silent_replaces_nothing(
    gridwright: Command, cloud: AwsCloud, before: Faults, tmp_path: Path
) -> None:
    grid = grid_of(FOUR, gridwright, cloud, tmp_path)
    grid.done("up")
    head = head_of(FOUR, cloud, before, tmp_path)
    old = head.owners()
    grid.edit("m6i.4xlarge", "m6i.8xlarge")
    up = grid.start("up")
    up.says("demo-compute: 0 of 4 machines are replaced")
    up.signal(signal.SIGINT)
    ended = up.end()
    assert ended.status == 130
    assert "the head node goes on replacing machines" in ended.err
    assert "Slurm does not answer on the head node: no node is touched" in head.minute(SLURM_IS_DOWN="1")
    assert head.owners() == old
    for _ in range(20):
        head.minute()
    assert not set(head.owners().values()) & set(old.values())
    assert "nothing is changed" in grid.done("up").out


@pytest.mark.thorough
def test_servers_go_one_at_a_time_and_only_while_clients_have_all_targets(
    gridwright: Command, cloud: AwsCloud, before: Faults, tmp_path: Path
) -> None:
    grid = grid_of(LUSTRE, gridwright, cloud, tmp_path)
    grid.done("up")
    head = head_of(LUSTRE, cloud, before, tmp_path)
    old = head.owners()
    _imports(head, "FULL", "REPLAY_WAIT")
    grid.edit("ami-0123456789abcdef0", "ami-0aaaaaaaaaaaaaaaa")
    up = grid.start("up")
    up.says("SharedOssServers: 2 servers are replaced one at a time")
    up.says("demo-shared-oss: 0 of 2 machines are replaced")
    up.signal(signal.SIGINT)
    up.end()
    assert "targets are not served: shared-OST0003 is REPLAY_WAIT" in head.minute()
    assert head.owners() == old
    _imports(head, "FULL", "IDLE")
    order: list[str] = []
    cloud.machines.silent.add("oss")
    for _ in range(12):
        there = head.owners()
        said = head.minute()
        gone = [name for name in there if f"replaced: {there[name]}" in said]
        assert len(gone) <= 1
        order += gone
        if len(gone) == 1 and len(order) == 1:
            for _ in range(3):
                assert "replaced:" not in head.minute(), "one that has told nothing holds up the next"
            cloud.machines.silent.clear()
    assert order == ["shared-oss1", "shared-oss2", "shared-mds1"]
    nodes = ("compute1", "compute2")
    assert [head.owners()[name] for name in nodes] == [old[name] for name in nodes]


def _imports(head: Head, usual: str, last: str) -> None:
    names = [f"shared-OST000{number}" for number in range(4)] + ["shared-MDT0000"]
    text = "".join(
        f"osc.{each}-osc-ffff.import=\nimport:\n    name: {each}-osc-ffff\n    target: {each}_UUID\n"
        f"    state: {last if each.endswith('3') else usual}\n    import_flags: [ replayable ]\n"
        for each in names
    )
    (head.place / "lctl").write_text(text)


@pytest.mark.thorough
def test_head_and_login_node_keep_their_image_until_they_are_named(
    gridwright: Command, cloud: AwsCloud, before: Faults, tmp_path: Path
) -> None:
    grid = grid_of(FOUR, gridwright, cloud, tmp_path)
    grid.done("up")
    head = head_of(FOUR, cloud, before, tmp_path)
    fixed = _fixed(grid)
    grid.edit("zone: us-east-1a,", "zone: us-east-1a, head: {instance: m6i.2xlarge}, key: ours,")
    cloud.client("ec2").create_key_pair(KeyName="ours")
    with head.running():
        ended = grid.done("up")
    assert "controller stays as it was launched, with its image; --replace controller" in ended.err
    assert "controller is stopped and started" in ended.err
    assert _fixed(grid) == fixed
    assert _type(grid, "controller") == "m6i.2xlarge"
    assert "nothing is changed" in grid.done("up").out

    wrong = grid("up", "--replace", "controler")
    assert wrong.status == 2
    assert "did you mean controller?" in wrong.text
    grid.edit("head: {instance: m6i.2xlarge}", "head: {instance: m6i.4xlarge}")
    with head.running():
        ended = grid.done("up", "--replace", "controller")
    assert "controller is made anew: what is on its disk is lost" in ended.err
    now = _fixed(grid)
    assert now["controller"] != fixed["controller"]
    assert now["login1"] == fixed["login1"]
    assert _type(grid, "controller") == "m6i.4xlarge"
    assert "nothing is changed" in grid.done("up").out


def _fixed(grid: Grid) -> dict[str, str]:
    machines = grid("status", "--json").json["machines"]
    return {each["name"]: each["instance"] for each in machines if each["name"] in ("controller", "login1")}


def _type(grid: Grid, name: str) -> str:
    machines = grid("status", "--json").json["machines"]
    return str(next(each["type"] for each in machines if each["name"] == name))


def test_plain_nodes_are_not_restarted_without_a_word(
    gridwright: Command, cloud: AwsCloud, tmp_path: Path
) -> None:
    plain = FSX.replace("zone: us-east-1a,", "zone: us-east-1a, replace_nodes: false,")
    grid = grid_of(plain, gridwright, cloud, tmp_path)
    grid.done("up")
    there = cloud.running("demo")
    grid.edit("m6i.4xlarge", "m6i.8xlarge")
    refused = grid("up")
    assert refused.status == 2
    assert "jobs on compute1 would end: another type stops it for a moment" in refused.text
    assert "--replace compute" in refused.text
    ended = grid.done("up", "--replace", "compute")
    assert "compute2 is stopped and started" in ended.err
    assert cloud.running("demo") == there
    assert _type(grid, "compute1") == "m6i.8xlarge"


@pytest.mark.thorough
def test_nodes_of_a_group_do_not_become_plain_ones_in_place(
    gridwright: Command, cloud: AwsCloud, tmp_path: Path
) -> None:
    grid = grid_of(FSX, gridwright, cloud, tmp_path)
    grid.done("up")
    grid.edit("zone: us-east-1a,", "zone: us-east-1a, replace_nodes: false,")
    refused = grid("up")
    assert refused.status == 2
    assert "nodes of compute have their addresses" in refused.text
    grid.done("down", "--yes")
    grid.done("up")


@pytest.mark.thorough
def test_lines_of_slurm_conf_follow_nodes(
    gridwright: Command, cloud: AwsCloud, before: Faults, tmp_path: Path
) -> None:
    grid = grid_of(FOUR, gridwright, cloud, tmp_path)
    grid.done("up")
    head = head_of(FOUR, cloud, before, tmp_path)
    line, rest = "NodeName=compute[1-4] CPUs={0} Sockets=1 CoresPerSocket={0} State=UNKNOWN\n", "Prio=1\n"
    conf, coming = head.place / "slurm/slurm.conf", head.place / "bundle/slurm.conf"
    conf.write_text(line.format(8) + rest)
    coming.parent.mkdir()
    coming.write_text(line.format(16) + "Prio=2\n")
    head.jobs("compute2", "5")
    grid.edit("m6i.4xlarge", "m6i.8xlarge")
    up = grid.start("up")
    up.says("demo-compute: 0 of 4 machines are replaced")
    up.signal(signal.SIGINT)
    up.end()
    for _ in range(2):  # the playbook may run twice
        assert head.look("--keep-lines", str(coming)).returncode == 0
        assert coming.read_text() == line.format(8) + "Prio=2\n"
    conf.write_text(coming.read_text())
    for _ in range(20):
        head.minute()
    assert "NodeName=compute2 CPUs=8 " in conf.read_text()
    assert "NodeName=compute1,compute3,compute4 CPUs=16 " in conf.read_text()
    head.jobs("compute2")
    for _ in range(4):
        head.minute()
    assert conf.read_text() == line.format(16) + "Prio=2\n"


def test_what_it_is_told_is_checked(cloud: AwsCloud, before: Faults, tmp_path: Path) -> None:
    head = Head(cloud, FSX, tmp_path / "head", before.url)
    file = head.place / "roll.json"
    file.write_text(json.dumps({"schema": 2, "groups": [{}], "drain_limit_seconds": -1, "other": 1}))
    done = head.look()
    assert done.returncode == 2
    for what in ("schema", "groups[0].servers", "drain_limit_seconds", "other"):
        assert what in done.stderr
    assert "Traceback" not in done.stderr
