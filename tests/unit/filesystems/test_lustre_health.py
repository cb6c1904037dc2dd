"""What is told of a Lustre, from what Lustre 2.17.0 printed while it was well, half dead, and back again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.commands import _DEATH_S, CommandOutput, CommandSilent
from gridwright.doctor.facts.filesystems import HEALTH_S
from gridwright.doctor.facts.filesystems import health as client_health
from gridwright.errors import Finding, GridwrightError
from gridwright.filesystems import kind_of
from gridwright.filesystems.health import LATE_S, Condition, Health, RunWithin, TimeUp
from gridwright.filesystems.lustre.model import LustreFileSystem
from gridwright.filesystems.lustre_client import targets as target_space
from gridwright.filesystems.lustre_client.connections import (
    LOOKS_S,
    SETTLE_S,
    SWITCHED,
    Connected,
    LustreConnection,
    parameter_names,
    parse_connections,
    with_stalled,
)
from gridwright.filesystems.lustre_client.health import (
    connection_findings,
    copytool_findings,
    health,
    once,
    served_findings,
)
from gridwright.filesystems.lustre_client.layout import parse_layout
from gridwright.filesystems.lustre_client.metadata_servers import coordinator_findings, parse_coordinators
from gridwright.filesystems.lustre_client.metadata_servers import (
    coordinator_parameters as parameter_names_of_coordinator,
)
from gridwright.filesystems.lustre_client.parameters import (
    parse_job_stats,
    parse_parameters,
    parse_stats,
    read_parameters,
)
from gridwright.filesystems.lustre_client.targets import RECOVERY_GOES_ON, parse_served
from gridwright.filesystems.lustre_client.targets import parameter_names as parameter_names_of_server
from tests.fixtures.lustre_node import (
    INSTANCE,
    NOW_S,
    RECORDED,
    SPACE,
    LustreNode,
    healthy_node,
    ost_deactivated,
    ost_down,
    printed,
    recorded_parameters,
    space,
)

MOUNT = "/mnt/scratch"


def asked(node: LustreNode, mount_point: str = MOUNT, source: str | None = None) -> Health:
    return health(node, mount_point, source, now_s=NOW_S, pause=lambda _: None)


def names(found: Health) -> list[str]:
    return [each.name for each in found.findings]


def text_of(found: Health, name: str) -> str:
    return next(each.text for each in found.findings if each.name == name)


def test_a_healthy_lustre_has_nothing_to_say() -> None:
    found = asked(healthy_node())
    assert (found.condition, names(found)) == (Condition.HEALTHY, [])
    assert [(each.name, each.server, each.state) for each in found.targets] == [
        ("scratch-MDT0000", "0@lo", "FULL"),
        ("scratch-OST0000", "0@lo", "FULL"),
        ("scratch-OST0001", "0@lo", "FULL"),
    ]
    # As lfs df printed: the sum of the OSTs, in KiB.
    assert found.capacity_bytes == 7666232 * 1024
    assert found.available_bytes == 7211256 * 1024
    assert [(each.name, each.up) for each in found.servers] == [("0@lo", True)]
    assert found.targets[1].inodes == 262144


def test_no_command_that_hangs_or_lies_is_run_and_nothing_is_read_wildcard() -> None:
    node = healthy_node()
    asked(node)
    assert {command[0] for command in node.asked} == {"cat", "id", "lctl"}
    assert all(command[1] == "get_param" for command in node.asked if command[0] == "lctl")


def test_the_connections_of_the_metadata_server_itself_are_not_taken_for_the_clients() -> None:
    parameters = parse_parameters(printed("054-param-osc-state"), ["osc.*.state"])
    assert len(parameters.values) == 4
    found = parse_connections(parameters, "scratch")
    assert [each.device for each in found.connections] == [
        f"scratch-OST0000-osc-{INSTANCE}",
        f"scratch-OST0001-osc-{INSTANCE}",
    ]


def test_a_pure_client_names_its_servers() -> None:
    text = printed("client-08-osc-import") + printed("client-09-mdc-mgc-import") + printed("client-13-health")
    found = parse_connections(parse_parameters(text, parameter_names("scratch")), "scratch")
    assert [(each.target, each.server, each.version) for each in found.connections] == [
        ("scratch-MDT0000", "192.168.77.1@tcp", "2.17.0.0"),
        ("scratch-OST0000", "192.168.77.1@tcp", "2.17.0.0"),
        ("scratch-OST0001", "192.168.77.1@tcp", "2.17.0.0"),
    ]
    assert (found.client_version, found.management) == ("2.17.0", (("192.168.77.1@tcp", "FULL"),))


def test_a_dead_target_is_found_though_lustre_calls_it_active_and_healthy() -> None:
    found = asked(ost_down())
    assert (found.condition, names(found)) == (Condition.BROKEN, ["target-away"])
    assert "scratch-OST0001 (DISCONN) at 0@lo" in text_of(found, "target-away")
    assert {each.name: each.up for each in found.targets} == {
        "scratch-MDT0000": True,
        "scratch-OST0000": True,
        "scratch-OST0001": False,
    }
    assert found.capacity_bytes == 3833116 * 1024, "of what is reached"


def test_a_target_that_is_switched_off_is_found_though_lfs_df_does_not_name_it() -> None:
    node = ost_deactivated()
    found = asked(node)
    assert (found.condition, names(found)) == (Condition.BROKEN, ["target-inactive"])
    assert found.targets[2].state == "INACTIVE"
    on = f"osc.scratch-OST0001-osc-{INSTANCE}.active"
    listed_only = LustreNode({**node.parameters, on: f"{on}=1\n"})
    assert names(asked(listed_only)) == [], "the list is behind where an idle one was switched off and on"
    # Where only the list of targets speaks of it, it is found all the same.
    only_listed = {key: value for key, value in node.parameters.items() if "OST0001" not in key}
    assert names(asked(LustreNode(only_listed))) == ["target-inactive"]
    (finding,) = [each for each in found.findings if each.name == "target-inactive"]
    assert "lctl set_param osc.<target>-osc-ffff*.active=1, then" in finding.remedy


def _connected(*connections: LustreConnection) -> Connected:
    return Connected(name="scratch", connections=connections, client_version=None, management=())


def test_what_the_client_alone_sees_is_told_beside_what_a_server_on_the_node_tells() -> None:
    told = [
        Finding("warning", "target-recovering", f"recovering: scratch-OST000{each}", "") for each in "012"
    ]
    both = Finding("warning", "target-recovering", "recovering: scratch-OST0000 and scratch-OST0001", "")
    assert once([both, *told]) == [both, told[2]]
    assert once([told[0], both]) == [told[0], both]
    assert once([told[0], Finding("warning", "target-full", "scratch-OST0000", "")])[1].name == "target-full"


def test_a_target_that_one_of_two_mounts_has_switched_off_is_told_as_that_mounts() -> None:
    off = LustreConnection(
        device="scratch-OST0001-osc-ffff1", target="scratch-OST0001", kind="OST", state="FULL", server="",
        version=None, active=False,
    )  # fmt: skip
    on = replace(off, device="scratch-OST0001-osc-ffff2", active=True)
    (finding,) = connection_findings(_connected(off, on), 0.0)
    assert "scratch-OST0001 (for one of 2 mounts on this node, scratch-OST0001-osc-ffff1)" in finding.text
    (finding,) = connection_findings(_connected(off), 0.0)
    assert "mounts on this node" not in finding.text


def test_a_target_that_one_of_two_mounts_has_had_off_and_on_is_told_as_that_mounts() -> None:
    on = LustreConnection(
        device="scratch-OST0001-osc-ffff1", target="scratch-OST0001", kind="OST", state="FULL", server="",
        version=None, active=True, history=((100, SWITCHED),),
    )  # fmt: skip
    other = replace(on, device="scratch-OST0001-osc-ffff2", history=())
    (finding,) = connection_findings(_connected(on, other), 200.0)
    assert "scratch-OST0001 (for one of 2 mounts on this node, scratch-OST0001-osc-ffff1)" in finding.text
    (finding,) = connection_findings(_connected(on, replace(other, history=on.history)), 200.0)
    assert "mounts on this node" not in finding.text
    assert "2 times" in finding.text


def test_the_remedy_of_an_mdt_that_is_switched_off_sets_its_own_device() -> None:
    node = ost_deactivated()
    node.parameters = {
        key.replace("osc.scratch-OST0001-osc-", "mdc.scratch-MDT0001-mdc-"): value.replace(
            "osc.scratch-OST0001-osc-", "mdc.scratch-MDT0001-mdc-"
        ).replace("OST0001", "MDT0001")
        for key, value in node.parameters.items()
    }
    (finding,) = [each for each in asked(node).findings if each.name == "target-inactive"]
    assert "lctl set_param mdc.<target>-mdc-ffff*.active=1, then" in finding.remedy


def test_all_servers_gone_is_silence() -> None:
    node = healthy_node()
    node.parameters = {key: value.replace("FULL", "DISCONN") for key, value in node.parameters.items()}
    found = asked(node)
    assert found.condition is Condition.SILENT
    assert names(found) == ["target-away", "management-server-away"]
    assert found.capacity_bytes is None


def test_an_idle_connection_is_no_fault() -> None:
    node = healthy_node()
    node.parameters = {
        key: value.replace("state: FULL", "state: IDLE") for key, value in node.parameters.items()
    }
    assert asked(node).condition is Condition.HEALTHY


def test_a_connection_that_is_just_being_made_is_looked_at_twice() -> None:
    node = healthy_node()
    well = node.parameters
    node.parameters = {key: value.replace("state: FULL", "state: CONNECTING") for key, value in well.items()}
    waited: list[float] = []

    def pause(seconds: float) -> None:
        waited.append(seconds)
        node.parameters = well

    assert health(node, MOUNT, pause=pause, now_s=NOW_S).condition is Condition.HEALTHY
    assert len(waited) == 1
    waited.clear()
    node.parameters = {key: value.replace("state: FULL", "state: CONNECTING") for key, value in well.items()}
    found = health(node, MOUNT, pause=waited.append, now_s=NOW_S)
    assert "scratch-OST0000 (CONNECTING)" in text_of(found, "target-away")
    assert len(waited) == 1


def test_an_eviction_is_told_for_a_day() -> None:
    node = healthy_node()
    node.parameters = {**node.parameters, **recorded_parameters("957-mdc-import", "958-mdc-state")}
    found = asked(node)
    assert (found.condition, names(found)) == (Condition.DEGRADED, ["client-evicted"])
    assert "scratch-MDT0000 (last at 2026-11-21 02:40:14Z)" in text_of(found, "client-evicted")
    assert found.targets[0].last_error == 1795228814
    later = health(node, MOUNT, now_s=NOW_S + 2 * 86400)
    assert names(later) == []


@pytest.mark.parametrize(
    ("parameter", "word"), [("active", "deactivated on its MDS"), ("max_create_count", "max_create_count=0")]
)
def test_an_ost_on_which_the_mds_places_no_files_is_told_on_the_mds(parameter: str, word: str) -> None:
    name = f"osp.scratch-OST0001-osc-MDT0000.{parameter}"
    assert list(served_findings(parse_served(parse_parameters(f"{name}=1\n", [name])))) == []
    (told,) = served_findings(parse_served(parse_parameters(f"{name}=0\n", [name])))
    assert told.name == "target-degraded"
    assert told.text == f"scratch-OST0001 ({word}): new files avoid it"
    assert f"osp.TARGET-osc-MDT*.{parameter}=" in told.remedy


SWITCHED_OFF = (
    "[ 1284.617497] Lustre: setting import scratch-MDT0000_UUID INACTIVE by administrator request\n"
)
LOST = (
    f"[ 1288.600777] LustreError: scratch-MDT0000-mdc-{INSTANCE}: This client was evicted by "
    "scratch-MDT0000; in progress operations using this service will fail.\n"
)
"""What 2.17.0 logged when a target was switched off and on; the second alone when a server evicted."""
REFUSED = (
    f"[ 1287.566777] LustreError: scratch-MDT0000-mdc-{INSTANCE}: operation mds_getattr to node 0@lo failed: "
    "rc = -107\n"
)
"""What it logged before the second, where a request found out that a server had evicted."""


@pytest.mark.parametrize(
    ("log", "name", "condition"),
    [
        ("", "client-evicted", Condition.DEGRADED),
        (LOST, "client-evicted", Condition.DEGRADED),
        (SWITCHED_OFF + LOST, "target-reactivated", Condition.HEALTHY),
        (SWITCHED_OFF + LOST + LOST, "client-evicted", Condition.DEGRADED),
        (LOST + SWITCHED_OFF + LOST, "target-reactivated", Condition.HEALTHY),
        (SWITCHED_OFF.replace("MDT0000", "OST0000") + LOST, "client-evicted", Condition.DEGRADED),
        (SWITCHED_OFF + REFUSED + LOST, "client-evicted", Condition.DEGRADED),
        # It was connected 24 minutes before the eviction: off and on while it was idle, before that.
        (SWITCHED_OFF + LOST.replace("1288", "2984"), "client-evicted", Condition.DEGRADED),
    ],
)
def test_a_target_that_was_switched_off_and_on_here_has_evicted_nobody(
    log: str, name: str, condition: Condition
) -> None:
    node = healthy_node()
    node.parameters = {**node.parameters, **recorded_parameters("957-mdc-import", "958-mdc-state")}
    node.kernel_log = log
    found = asked(node)
    assert (found.condition, names(found)) == (condition, [name])
    assert "scratch-MDT0000 (last at 2026-11-21 02:40:14Z)" in text_of(found, name)


@pytest.mark.parametrize(
    ("flag", "word"), [("D", "degraded"), ("N", "takes no new files"), ("R", "read-only")]
)
def test_flags_of_targets_are_told(flag: str, word: str) -> None:
    node = healthy_node()
    node.parameters = {**node.parameters, **space("scratch-OST0000", 3833116, 3618672, 3392576, flag)}
    found = asked(node)
    assert (found.condition, names(found)) == (Condition.DEGRADED, ["target-degraded"])
    assert f"scratch-OST0000 ({word})" in text_of(found, "target-degraded")


def test_the_recorded_flag_of_a_target_that_takes_no_new_files_is_read() -> None:
    name = f"osc.scratch-OST0000-osc-{INSTANCE}.statfs_state"
    patterns = ["osc.*.statfs_state", "obdfilter.*.statfs_state", "osp.*.prealloc_status"]
    told = parse_parameters(printed("961-no_create"), patterns)
    assert told.text(name) == "N"


def test_a_full_target_is_found_while_the_file_system_has_room() -> None:
    row = next(
        line.split() for line in printed("962-enospc").splitlines() if line.startswith("scratch-OST0001")
    )
    total, used, available = (int(each) for each in row[1:4])
    node = healthy_node()
    node.parameters = {**node.parameters, **space("scratch-OST0001", total, total - used, available)}
    found = asked(node)
    assert found.condition is Condition.BROKEN
    assert names(found) == ["target-full", "targets-unbalanced"]
    assert "1.10 MiB left" in text_of(found, "target-full")
    assert found.available_bytes
    assert found.available_bytes > 0.4 * (found.capacity_bytes or 0)


def test_targets_are_unbalanced_from_where_the_allocator_leaves_round_robin() -> None:
    node = healthy_node()
    for part, expected in ((0.833, []), (0.831, ["targets-unbalanced"])):
        less = space("scratch-OST0001", 3833116, int(3831724 * part), int(3605628 * part))
        node.parameters = {**node.parameters, **less}
        found = asked(node)
        assert names(found) == expected
    told = text_of(found, "targets-unbalanced")
    assert "scratch-OST0001 has 78 % free (2.86 GiB) and scratch-OST0000 94 % free" in told
    assert "8 streams with new files of one stripe meet 2 of 2 OSTs" in told


def test_a_target_whose_space_is_not_told_on_a_busy_node_is_not_silent_and_hides_nothing_else() -> None:
    node = healthy_node()
    node.slow = (f"osc.scratch-OST0001-osc-{INSTANCE}.kbytestotal",)
    found = asked(node)
    assert names(found) == []
    assert [each.up for each in found.targets] == [True] * 3
    assert found.capacity_bytes == 3833116 * 1024


def test_a_server_that_is_gone_unnoticed_hides_only_its_own_target() -> None:
    node = healthy_node()
    node.hangs = (f"osc.scratch-OST0001-osc-{INSTANCE}.kbytestotal",)
    found = asked(node)
    assert names(found) == ["target-silent"]
    assert text_of(found, "target-silent").startswith(
        "scratch-OST0001 at 0@lo (1 request on the way, no answer for 9 s"
    )
    assert [each.up for each in found.targets] == [True, True, False]
    assert found.targets[1].capacity_bytes == 3833116 * 1024


def test_servers_of_two_releases_and_a_client_of_another_are_told() -> None:
    node = healthy_node()
    half = {
        key: value.replace("target_version: 2.17.0.0", "target_version: 2.15.5.0")
        if "OST0001" in key
        else value
        for key, value in node.parameters.items()
    }
    assert names(asked(LustreNode(half))) == ["lustre-servers-differ"]
    old = {
        key: value.replace("version=2.17.0", "version=2.12.8_6_g5457c37")
        for key, value in node.parameters.items()
    }
    found = asked(LustreNode(old))
    assert (found.condition, names(found)) == (Condition.HEALTHY, ["lustre-client-differs"])
    assert "release 2.12.8, its servers of 2.17.0" in text_of(found, "lustre-client-differs")


def test_without_root_nothing_is_read_and_that_is_said() -> None:
    node = healthy_node()
    node.root = False
    found = asked(node)
    assert (found.condition, names(found), found.targets) == (Condition.SILENT, ["lustre-needs-root"], ())
    assert all(command[0] != "lctl" for command in node.asked)


def test_what_is_mounted_instead_is_told() -> None:
    node = healthy_node()
    node.mounts = "/dev/vda / ext4 rw 0 0\n"
    found = asked(node)
    assert (found.condition, names(found)) == (Condition.BROKEN, ["filesystem-not-mounted"])
    assert "there is ext4 of /dev/vda" in text_of(found, "filesystem-not-mounted")


def test_mounts_of_a_server_are_not_taken_for_the_file_system() -> None:
    node = healthy_node()
    node.mounts = printed("005-proc-mounts")
    assert names(asked(node, "/mnt/ost0")) == ["filesystem-not-mounted"]
    assert names(asked(node, "/mnt/scratch/below/it")) == []


def test_a_server_that_mounts_no_client_tells_of_its_targets() -> None:
    node = LustreNode(
        {
            **recorded_parameters("941-recovery_status-early"),
            "obdfilter.scratch-OST0000.degraded": "obdfilter.scratch-OST0000.degraded=1\n",
        },
        mounts="\n".join(printed("005-proc-mounts").splitlines()[:-1]),
    )
    found = asked(node, MOUNT, "192.168.77.1@tcp:/scratch")
    assert names(found) == ["target-recovering", "target-degraded"]
    assert "scratch-OST0001 (WAITING_FOR_CLIENTS)" in text_of(found, "target-recovering")
    assert "scratch-OST0000 (degraded)" in text_of(found, "target-degraded")


def test_recovery_is_told_while_it_lasts() -> None:
    states = {}
    for name in ("941-recovery_status-early", "942-recovery_status-1", "recov-12-mdt-status-6"):
        served = parse_served(parse_parameters(printed(name), parameter_names_of_server("scratch")))
        states[name] = {each.target: (each.recovery, each.recovery_left_s, each.clients) for each in served}
    assert states["941-recovery_status-early"]["scratch-OST0001"] == ("WAITING_FOR_CLIENTS", None, "")
    assert states["942-recovery_status-1"]["scratch-OST0001"] == ("COMPLETE", None, "1/1")
    assert states["recov-12-mdt-status-6"] == {"scratch-MDT0000": ("RECOVERING", 268, "0/1")}


@pytest.mark.parametrize(
    ("prefix", "target", "expected"),
    [
        (
            "recov-02-status",
            "scratch-OST0000",
            ["WAITING_FOR_CLIENTS"] * 2 + ["COMPLETE"] * 6,
        ),
        ("recov-12-mdt-status", "scratch-MDT0000", None),
    ],
)
def test_a_recovery_is_followed_to_its_end(prefix: str, target: str, expected: list[str] | None) -> None:
    told = []
    for path in sorted(RECORDED.glob(f"{prefix}-?.out")):
        served = parse_served(parse_parameters(path.read_text(), parameter_names_of_server("scratch")))
        state = next(each for each in served if each.target == target)
        told.append(state.recovery)
        waits = [each.name for each in served_findings(served)]
        assert waits == (["target-recovering"] if state.recovery in RECOVERY_GOES_ON else [])
    assert told == (expected or told)
    assert told[0] == "WAITING_FOR_CLIENTS"
    assert len(told) >= 6


def test_a_recovery_that_was_aborted_is_over() -> None:
    text = printed("recov-15-mdt-status-after-abort")
    served = parse_served(
        parse_parameters(text, [*parameter_names_of_server("scratch"), "*.*.eviction_count", "*.*.*clients"])
    )
    assert [(each.target, each.recovery, each.clients) for each in served] == [
        ("scratch-MDT0000", "COMPLETE", "0/1")
    ]
    assert list(served_findings(served)) == []


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.out")), ids=lambda path: path.stem)
def test_whatever_a_command_printed_is_read_or_refused(path: Path) -> None:
    text = path.read_text(errors="replace")
    names = [
        *parameter_names("scratch"),
        *parameter_names_of_server("scratch"),
        "*.*.stats",
        "*.*.*.*.stats",
        "*.*.job_stats",
    ]
    told = parse_parameters(text, names)
    connected = parse_connections(told, "scratch")
    assert {each.target[:12] for each in connected.connections} <= {"scratch-OST0", "scratch-MDT0"}
    parse_served(told)
    parse_layout(text)
    for name, value in told.values.items():
        if name.endswith(".job_stats"):
            parse_job_stats(value)
        elif name.endswith(".stats"):
            try:
                parse_stats(value)
            except GridwrightError:
                assert "nonroot" in path.stem


def test_a_node_without_lustre_says_what_to_install() -> None:
    def run(command: object, *, timeout_s: float = 30.0) -> object:
        from gridwright.commands import CommandOutput

        return CommandOutput(127, b"", b"lctl: command not found")

    with pytest.raises(GridwrightError, match="lctl is not there"):
        read_parameters(run, ["version"])  # type: ignore[arg-type]


def test_names_that_a_client_does_not_have_lose_no_others() -> None:
    told = read_parameters(healthy_node(), ["obdfilter.*.stats", "version"])
    assert dict(told.values) == {"version": "2.17.0"}


def test_every_kind_is_asked_through_one_entry() -> None:
    spec = LustreFileSystem.model_validate(
        {"type": "lustre", "path": Path(MOUNT), "source": "192.168.77.1@tcp:/scratch"}
    )
    found = kind_of(spec).health(spec, healthy_node(), MOUNT)
    assert found is not None
    assert found.condition is Condition.HEALTHY


ALL = (
    "".join(healthy_node().parameters.values())
    + printed("926-ostdown-state")
    + printed("941-recovery_status-early")
)


@given(st.integers(0, len(ALL)), st.integers(0, len(ALL)), st.text(max_size=20))
def test_garbled_output_never_breaks_the_parsers(start: int, end: int, put: str) -> None:
    text = ALL[:start] + put + ALL[end:]
    parse_connections(parse_parameters(text, [*parameter_names("scratch"), "osc.*.kbytestotal"]), "scratch")
    parse_served(parse_parameters(text, parameter_names_of_server("scratch")))


@given(st.integers(0, 4000), st.sampled_from(sorted(SPACE)), st.text(max_size=12))
def test_garbled_parameters_end_in_findings_and_never_in_a_traceback(cut: int, name: str, value: str) -> None:
    node = healthy_node()
    node.parameters = {key: text[:cut] for key, text in node.parameters.items()} | {name: f"{name}={value}\n"}
    assert isinstance(asked(node), Health)


AGENT = "605-copytool-start"


@pytest.mark.parametrize(
    ("control", "agents", "archives", "expected"),
    [
        ("601-", AGENT, [1], []),
        ("601-", AGENT, [1, 2], ["no-copytool"]),
        ("601-", "602-hsm-params", [1], ["no-copytool"]),
        ("617-hsm-agents-none", "617-hsm-agents-none", [1], ["hsm-off", "no-copytool"]),
        ("079-param-hsm_control", "079-param-hsm_control", [1], ["hsm-off", "no-copytool"]),
        ("617-hsm-agents-none", "617-hsm-agents-none", [], []),
    ],
)
def test_readers_that_nobody_serves_are_told_of_where_a_repository_lies(
    control: str, agents: str, archives: list[int], expected: list[str]
) -> None:
    (state,) = [
        line for line in recorded_lines(control) if line.startswith("mdt.scratch-MDT0000.hsm_control=")
    ][-1:]
    told = [line for line in recorded_lines(agents) if line.startswith("mdt.scratch-MDT0000.hsm.agents=")]
    parameters = parse_parameters("\n".join([state, *told]), parameter_names_of_coordinator("scratch"))
    coordinators = parse_coordinators(parameters)
    assert [each.target for each in coordinators] == ["scratch-MDT0000"]
    assert [each.name for each in coordinator_findings(coordinators, archives)] == expected


def test_an_agent_of_all_archives_is_one_of_each() -> None:
    text = "mdt.a-MDT0000.hsm_control=enabled\nmdt.a-MDT0000.hsm.agents=uuid=x archive_id=ANY requests=[]\n"
    text += "mdt.a-MDT0001.hsm_control=enabled\nmdt.a-MDT0001.hsm.agents=\nuuid=x archive_id=2,3 requests=[]"
    first, second = parse_coordinators(parse_parameters(text, parameter_names_of_coordinator("a")))
    assert first.has_agent(9)
    assert (second.has_agent(3), second.has_agent(1)) == (True, False)
    (finding,) = coordinator_findings([first, second], [1])
    assert "archive 1 is registered at a-MDT0001:" in finding.text


def test_only_a_metadata_server_is_asked_about_copytools() -> None:
    node = healthy_node()
    assert copytool_findings(node, MOUNT, None, [1]) == []
    assert all(command[0] != "lctl" for command in node.asked)


def recorded_lines(name: str) -> list[str]:
    (path,) = list(RECORDED.glob(f"{name}*.out"))[:1]
    return path.read_text().splitlines()


# A server of Lustre that takes no requests any more, as it was recorded: named before its first time-out.

HERE = "ffff8aa3b3282800"
"""Of the mount in recordings of a silent server."""


def silent_node(moment: str) -> LustreNode:
    """The healthy client, its connections to OSTs as they were at that moment."""
    node = healthy_node()
    recorded = recorded_parameters(f"drop-{moment}-import", f"drop-{moment}-state")
    told = {name.replace(HERE, INSTANCE): text.replace(HERE, INSTANCE) for name, text in recorded.items()}
    node.parameters = {**node.parameters, **told}
    node.hangs = (f"osc.scratch-OST000?-osc-{INSTANCE}.kbytestotal",) if moment != "silent-before" else ()
    return node


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        ("silent-before", []),
        ("silent-8s", ["target-silent"]),
        ("silent-25s", ["target-away", "target-silent"]),
        ("silent-50s", ["target-away"]),
        ("mended-22s", []),
    ],
)
def test_a_silent_server_is_named_while_its_connections_still_count_as_full(
    moment: str, expected: Sequence[str]
) -> None:
    node = silent_node(moment)
    if moment.startswith("mended"):
        node.hangs = ()
    found = health(node, MOUNT, pause=lambda _: None, now_s=NOW_S)
    assert names(found) == expected


def test_requests_that_wait_are_told_with_how_long() -> None:
    node = silent_node("silent-8s")
    node.hangs = ()
    found = health(node, MOUNT, pause=lambda _: None, now_s=NOW_S)
    said = text_of(found, "target-silent")
    assert "scratch-OST0001 at 0@lo (1 request on the way, no answer for 8 s, 0 timed out" in said
    # OST0000 is as silent, but nobody has asked it for anything: its space tells.
    assert "OST0000" not in said
    states = {each.name: each.state for each in found.targets}
    assert states["scratch-OST0001"] == "FULL, no answer for 8 s"
    assert not any("OST0001" in name and "kbytes" in name for command in node.asked for name in command)


def test_a_target_that_is_silent_at_one_of_two_mounts_is_away() -> None:
    """What hangs at that mount follows from it, whichever mount comes first."""
    for other in ("ffff000000000000", "fffffffffffff000"):
        node = silent_node("silent-8s")
        node.hangs = ()
        idle = {
            name.replace(INSTANCE, other): text.replace(INSTANCE, other)
            for name, text in healthy_node().parameters.items()
            if INSTANCE in name
        }
        node.parameters = {**node.parameters, **idle}
        found = health(node, MOUNT, pause=lambda _: None, now_s=NOW_S)
        assert found.away == {"scratch-OST0001": "FULL, no answer for 8 s"}


def test_a_busy_server_that_answers_is_not_silent() -> None:
    text = printed("drop-silent-8s-import").replace("idle: 8 sec", "idle: 2 sec")
    found = parse_connections(parse_parameters(text, parameter_names("scratch")), "scratch")
    assert [each.waiting for each in found.connections] == [0, 1]
    assert not any(each.seems_silent for each in found.connections)


def test_an_idle_target_that_was_asked_a_moment_ago_is_not_silent() -> None:
    """Its last reply is long ago, and a request is on the way: one reading of a silent one looks the same."""
    node = silent_node("silent-8s")
    asked = parse_connections(read_parameters(node, parameter_names("scratch")), "scratch")
    assert [each.seems_silent for each in asked.connections if each.target.endswith("OST0001")] == [True]
    answered = {
        name: text.replace("inflight: 1", "inflight: 0").replace("idle: 8 sec", "idle: 0 sec")
        for name, text in node.parameters.items()
    }

    def pause(_seconds: float) -> None:
        node.parameters = answered

    assert not any(each.is_silent for each in with_stalled(node, asked, pause).connections)


def test_requests_of_which_one_is_answered_now_and_then_are_those_of_a_busy_target() -> None:
    node = silent_node("silent-8s")
    asked = parse_connections(read_parameters(node, parameter_names("scratch")), "scratch")
    now = [0.0]

    def pause(seconds: float) -> None:
        now[0] += seconds
        node.parameters = {
            name: text.replace("idle: 8 sec", "idle: 1 sec") for name, text in node.parameters.items()
        }

    found = with_stalled(node, asked, pause, clock=lambda: now[0])
    assert not any(each.is_silent for each in found.connections)


def test_a_look_at_silent_targets_ends_before_the_doctor_gives_up() -> None:
    assert SETTLE_S + target_space._ALL_S + target_space._ONE_S + 2 * _DEATH_S + sum(LOOKS_S) < HEALTH_S
    assert max(SETTLE_S, *LOOKS_S) + _DEATH_S <= LATE_S
    text = printed("051-param-osc-import")
    (first, *_) = parse_connections(parse_parameters(text, parameter_names("scratch")), "scratch").connections
    from dataclasses import replace

    many = [
        replace(first, target=f"scratch-OST{n:04x}", device=f"scratch-OST{n:04x}-osc-{INSTANCE}")
        for n in range(300)
    ]
    now, limits = [0.0], list[float]()

    def run(command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        from gridwright.errors import environment_error

        limits.append(timeout_s)
        now[0] += timeout_s
        raise environment_error("lctl has not answered")

    found = target_space.read_space(run, many, clock=lambda: now[0])
    assert len(limits) < 20
    assert 0 < len(found.untold) < 300, "those that nobody had time to ask are not called silent"
    assert found.of == {}


def test_what_was_told_before_something_did_not_answer_is_judged() -> None:
    node = silent_node("silent-8s")
    gone = {
        name: text.replace("FULL", "DISCONN") for name, text in node.parameters.items() if "OST0000" in name
    }
    node.parameters, node.hangs = {**node.parameters, **gone}, ()
    node.slow = (f"osc.scratch-OST0001-osc-{INSTANCE}.rpc_stats",)
    found = health(node, MOUNT, pause=lambda _: None, now_s=NOW_S)
    assert names(found) == ["target-away", "health-incomplete"]
    assert "the rest did not answer: lctl has not answered" in text_of(found, "health-incomplete")
    assert found.away == {"scratch-OST0000": "DISCONN"}


def test_a_command_that_the_time_of_all_cuts_short_is_not_known_to_be_silent() -> None:
    limits = list[float]()

    def run(command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        limits.append(timeout_s)
        raise CommandSilent("silent", None, "see dmesg")

    within = RunWithin(run, time.monotonic() + 5)
    with pytest.raises(CommandSilent):
        within(["lctl"], timeout_s=2.0)
    with pytest.raises(TimeUp, match="lctl had not answered after 5 s"):
        within(["lctl"], timeout_s=20.0)
    with pytest.raises(TimeUp, match="no time was left for lctl"):
        RunWithin(run, time.monotonic() - 1)(["lctl"])
    assert limits == [2.0, pytest.approx(5, abs=0.5)]


def test_a_health_that_ends_with_its_time_has_what_was_told_by_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """The doctor's look: a target that is away, then a question for space on a node that hangs."""
    node = healthy_node()
    down = recorded_parameters("925-ostdown-import-state", "926-ostdown-state")
    node.parameters = {**node.parameters, **down}

    def run(command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        if any("kbytestotal" in word for word in command):
            time.sleep(timeout_s)
            raise CommandSilent("lctl has not answered", None, "see dmesg")
        return node(command, timeout_s=timeout_s)

    monkeypatch.setattr("gridwright.commands.run_here", run)
    monkeypatch.setattr("gridwright.doctor.facts.filesystems.HEALTH_S", 0.5)
    found = client_health({"type": "lustre", "path": MOUNT, "source": "192.168.77.1@tcp:/scratch"})
    assert [each.name for each in found.findings] == ["target-away", "health-incomplete"]
    assert found.away == {"scratch-OST0001": "DISCONN"}
