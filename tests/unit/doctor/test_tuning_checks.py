"""Settings of nodes against the tuning table: drift is found, what does not hold on a node is not judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.doctor.check import CheckResult, Observation, results_of
from gridwright.doctor.checks import all_checks
from gridwright.doctor.checks.tuning import requested_commands, requested_settings
from gridwright.doctor.facts.gather import _QUEUE
from gridwright.setup.ansible.tuned_values import is_right
from gridwright.setup.tuning import (
    Compare,
    NodeSize,
    TuningRow,
    Value,
    brought_kinds,
    desired_value,
    tuning_rows,
)
from tests.support.doctor_grid import GIB, MACHINES, SPEC, grid, machine, mount, sound

SIZE = NodeSize(40 * GIB, 4, 8)


def result(name: str, **changes: Any) -> CheckResult:
    """What one node that has a setting comes out as."""
    (check,) = [each for each in all_checks() if each.name == name]
    seen = Observation(MACHINES, {"compute1": machine("compute1", **changes)}, {"compute2": "no answer"}, {})
    (found,) = results_of(seen, [check])
    return found


def settings(kind: str, key: str, value: str | None) -> dict[str, Any]:
    return {"settings": {kind: {key: value}}}


def rows(*kinds: str) -> list[TuningRow]:
    return [row for row in tuning_rows() if row.kind in kinds]


def asked_rows() -> list[TuningRow]:
    """Rows that a compute node looks up by their keys, or by a command for each."""
    return [
        row
        for row in rows("sysctl", "sysfs", "limit", "service", *brought_kinds())
        if "compute" in row.roles and row.key not in ("time-sync", "host-name")
    ]


@pytest.mark.parametrize(
    ("key", "kib", "value"),
    [
        ("osc.*.max_dirty_mb", 983448, 240),
        ("osc.*.max_dirty_mb", 4 * 2**20, 256),
        ("llite.*.max_read_ahead_mb", 402584, 196),
        ("llite.*.max_read_ahead_mb", 983448, 256),
        ("llite.*.max_read_ahead_per_file_mb", 402584, 196),
        ("llite.*.max_read_ahead_per_file_mb", 983448, 256),
    ],
)
def test_no_more_is_asked_of_a_small_client_than_it_takes(key: str, kib: int, value: int) -> None:
    """Clients of 2.17.0 with so much memory refused 241, and cut 256 off at 196 without a word."""
    (row,) = [each for each in rows("lustre-client") if each.key == key]
    assert desired_value(row, NodeSize(kib * 1024, 2, 2)) == value


def wrong_value(row: TuningRow) -> str:
    """Something that a row does not want."""
    value = desired_value(row, SIZE)
    if row.compare == "at-least":
        return " ".join("0" for _ in str(value).split())
    if row.compare == "at-most":
        return " ".join(str(10**9) for _ in str(value).split())
    return "another"


def right_value(row: TuningRow) -> str:
    value = desired_value(row, SIZE)
    return str(value[0] if isinstance(value, list) else value)


PRINTED = {"lctl": "a.{key}={value}\nb.{key}={value}\n", "mmlsconfig": "{key} {value}\n"}
"""What commands print of a setting, by their name."""


def seen_with(row: TuningRow, value: str) -> CheckResult:
    kind = brought_kinds().get(row.kind)
    shown = PRINTED[kind.command(row.key)[0].rpartition("/")[2]] if kind else "{value}"
    changes: dict[str, Any] = settings(row.kind, row.key, shown.format(key=row.key, value=value))
    if row.filesystems:
        changes["mounts"] = [mount("/mnt/x", type=row.filesystems[0], local=False)]
    system = {"kernel": "4.18.0" if row.until else "6.12.0", "architecture": "x86_64"}
    return result(row.name, **changes, system=system)


@pytest.mark.parametrize("row", asked_rows(), ids=lambda row: row.name)
def test_a_setting_that_drifted_is_found_and_one_that_is_right_is_not(row: TuningRow) -> None:
    drifted = seen_with(row, wrong_value(row))
    assert (drifted.ok, drifted.applies, drifted.nodes) == (False, True, ("compute1",)), drifted
    assert row.key in drifted.found and row.key in drifted.expected
    assert drifted.level in ("warning", "info")
    right = seen_with(row, right_value(row))
    assert (right.ok, right.applies) == (True, True), right


@pytest.mark.parametrize("row", rows("block"), ids=lambda row: row.name)
def test_the_queue_of_a_disk_that_drifted_is_found(row: TuningRow) -> None:
    def disk(value: str, **queue: str) -> dict[str, Any]:
        medium = (row.media or ["nvme"])[0]
        usual = {"scheduler": "mq-deadline", row.key: value}
        return {"disks": [{"name": "sdx", "medium": medium, "size_bytes": GIB, "queue": usual | queue}]}

    drifted = result(row.name, **disk(wrong_value(row)))
    assert not drifted.ok and "sdx" in drifted.found
    assert result(row.name, **disk(right_value(row))).ok
    if row.bounded_by:
        assert result(row.name, **disk("127", **{row.bounded_by: "127"})).ok

    array = disk(wrong_value(row))
    array["disks"][0]["members"] = ["sda", "sdb"]
    of_array = result(row.name, **array)
    assert of_array.applies is (row.key == "read_ahead_kb"), "the queues of an array are its members'"


@pytest.mark.parametrize("row", rows("mount"), ids=lambda row: row.name)
def test_mount_options_that_are_wrong_are_found(row: TuningRow) -> None:
    kind = (row.filesystems or ["xfs"])[0]
    system = {"kernel": "4.18.0" if row.until else "6.12.0", "architecture": "x86_64"}

    def mounted(options: str) -> CheckResult:
        library = sound(path="/scratch/work", filesystem_type=kind, source="/dev/md0", mount_point="/scratch")
        mounts = [mount("/scratch", type=kind, options=options, local=kind in ("xfs", "ext4"))]
        return result(row.name, libraries={"work": library}, mounts=mounts, system=system)

    value = right_value(row)
    option = row.key if value == row.key else f"{row.key}={value}"
    with_it, without = mounted(f"rw,{option}"), mounted("rw")
    assert with_it.ok is (row.compare != "absent"), with_it
    assert without.ok is (row.compare == "absent"), without
    assert with_it.applies and without.applies


def test_the_tuned_profile_is_judged_where_tuned_keeps_one() -> None:
    (row,) = rows("tuned")
    assert not result(row.name, tuned="balanced").ok
    assert result(row.name, tuned=right_value(row)).applies
    assert not result(row.name, tuned=None).applies


def test_a_node_without_a_time_service_is_found_unless_something_else_keeps_its_clock() -> None:
    silent = {"synchronised": False, "keepers": []}
    assert not result("service-time-sync", clock=silent).ok
    assert result("service-time-sync", clock=silent | {"synchronised": True}).ok
    container = {"kernel": "6.1.0", "architecture": "x86_64", "container": True}
    assert not result("service-time-sync", clock=silent, system=container).applies


@pytest.mark.parametrize(
    ("addresses", "ok"),
    [(["127.0.1.1"], False), ([], False), (["10.0.0.7"], True), (["::1", "fd00::7"], True)],
)
def test_a_host_name_must_not_lead_back_to_the_node_itself(addresses: list[str], ok: bool) -> None:
    names: Mapping[str, object] = {"host": "compute1", "addresses": addresses}
    assert result("host-name-resolves", names=names).ok is ok


def test_what_is_gone_is_said_to_be_gone_and_what_is_secret_to_be_unknown() -> None:
    gone = result("sysctl-numa-balancing", **settings("sysctl", "kernel.numa_balancing", None))
    assert (gone.ok, gone.applies) == (True, False)
    assert "kernel.numa_balancing" in gone.found
    secret = result("sysctl-swappiness", **settings("sysctl", "vm.swappiness", "?Permission denied"))
    assert (secret.ok, secret.applies) == (True, False)
    assert "Permission denied" in secret.found


def test_formulas_follow_the_size_of_each_node() -> None:
    (check,) = [each for each in all_checks() if each.name == "sysctl-min-free-kbytes"]
    nodes = [
        machine(name, memory_bytes=size * GIB, **settings("sysctl", "vm.min_free_kbytes", "340000"))
        for name, size in (("compute1", 32), ("compute2", 256))
    ]
    wrong = [each for each in results_of(grid(*nodes, spec=MACHINES), [check]) if not each.ok]
    assert [each.nodes for each in wrong] == [("compute2",)]


def test_nodes_of_a_lab_are_not_judged_by_the_kernel_that_they_share() -> None:
    (check,) = [each for each in all_checks() if each.name == "sysctl-swappiness"]
    facts = machine("compute1", **settings("sysctl", "vm.swappiness", "60"))
    (found,) = results_of(grid(facts, spec=SPEC), [check])
    assert (found.ok, found.applies) == (True, False)


def test_a_disk_tells_all_that_the_table_asks_of_disks() -> None:
    asked = {row.key for row in rows("block")} | {row.bounded_by for row in rows("block") if row.bounded_by}
    assert asked <= set(_QUEUE)
    assert "vm.swappiness" in requested_settings()["sysctl"]


def test_nodes_are_asked_for_every_row_that_they_do_not_tell_of_anyway() -> None:
    asked = {kind: set(keys) for kind, keys in [*requested_settings().items(), *requested_commands().items()]}
    for row in tuning_rows():
        told = row.kind in ("block", "mount", "tuned") or row.key in ("time-sync", "host-name")
        assert told or row.key in asked[row.kind], row.name
    assert requested_commands()["scale"]["pagepool"][-1] == "pagepool"


def test_what_a_command_did_not_tell_is_no_setting_and_not_judged() -> None:
    (row,) = [each for each in rows("scale") if each.key == "pagepool" and "compute" in each.roles]
    for printed in (None, "", "mmlsconfig: no cluster\n", "pagepool2 1\n"):
        found = result(row.name, settings={"scale": {"pagepool": printed}})
        assert (found.ok, found.applies) == (True, False), printed
    assert "does not answer" in result(row.name, **settings("scale", "pagepool", "?it does not answer")).found


@pytest.mark.parametrize(
    ("found", "value", "compare", "right"),
    [
        ("4096 131072 33554432", "4096 131072 16777216", "at-least", True),
        ("4096 65536 33554432", "4096 131072 16777216", "at-least", False),
        ("unlimited", 500000, "at-least", True),
        ("1024", "unlimited", "at-least", False),
        ("unlimited", "unlimited", "at-least", True),
        ("performance, powersave", "performance", "equal", False),
        ("performance", "performance", "equal", True),
        ("256k", 262144, "at-least", True),
        ("16M", "16M", "equal", True),
        ("16777216", "16M", "equal", True),
        ("kyber", ["mq-deadline", "none"], "one-of", False),
        ("none", ["mq-deadline", "none"], "one-of", True),
        ("60", 10, "at-most", False),
        ("a b", 10, "at-least", False),
    ],
)
def test_values_are_compared_as_what_they_mean(
    found: str, value: Value, compare: Compare, right: bool
) -> None:
    assert is_right(found, value, compare) is right


@given(st.text(max_size=40), st.sampled_from(["equal", "at-least", "at-most", "one-of"]))
def test_whatever_a_setting_holds_is_judged(found: str, compare: Compare) -> None:
    assert is_right(found, 8, compare) in (True, False)
