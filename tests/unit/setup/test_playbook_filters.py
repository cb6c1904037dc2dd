"""Filters of the playbook: what differs on a node is found as the doctor finds it, and nothing else is."""

from __future__ import annotations

import ast
import fnmatch
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gridwright.setup.tuning
from gridwright.setup.ansible.tuned_values import is_right
from gridwright.setup.tuning import NodeSize, desired_value, tuning_rows, tuning_text

NODES = Path(gridwright.setup.tuning.__file__).parent
TABLE = tuning_text()
SIZE = "MemTotal:       65536000 kB\nMemFree: 5 kB\n" + "".join(
    f"processor\t: {cpu}\nphysical id\t: 0\ncore id\t\t: {cpu // 2}\n\n" for cpu in range(8)
)


def load() -> ModuleType:
    path = NODES / "ansible" / "filter_plugins" / "gridwright.py"
    specification = importlib.util.spec_from_file_location("gridwright_filters", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


FILTERS = load()


def row(**fields: Any) -> dict[str, Any]:
    return {"name": "a-row", "kind": "sysctl", "key": "vm.swappiness", "wanted": 10, **fields}


def test_values_are_those_that_the_doctor_works_out() -> None:
    rows = FILTERS.tuning_rows(TABLE, ["compute", "all"], SIZE)
    size = NodeSize(65536000 * 1024, 4, 8)
    found = {each["name"]: each["wanted"] for kind in rows.values() for each in kind}
    assert found == {
        each.name: desired_value(each, size) for each in tuning_rows() if "compute" in each.roles
    }


def test_a_node_of_no_group_gets_nothing() -> None:
    assert not any(FILTERS.tuning_rows(TABLE, ["all", "ungrouped"], SIZE).values())


VALUES = st.one_of(
    st.integers(0, 2000).map(str),
    st.sampled_from(["never", "none", "unlimited", "mq-deadline", "4096 65536 16777216", "4096 1 99999999"]),
)


@given(
    found=VALUES,
    value=st.one_of(VALUES, st.integers(0, 2000), st.lists(VALUES, min_size=1, max_size=3)),
    compare=st.sampled_from(["equal", "at-least", "at-most", "one-of"]),
)
def test_what_the_playbook_changes_is_what_the_doctor_finds_wrong(
    found: str, value: str | int | list[str], compare: str
) -> None:
    rows = [row(wanted=value, compare=compare)]
    changed = FILTERS.drift(rows, {"/proc/sys/vm/swappiness": found})
    assert bool(changed) is not is_right(found, value, compare), (found, value, compare)


@pytest.mark.parametrize("file", ["tuned_values.py", "filter_plugins/gridwright.py"])
def test_a_sites_own_ansible_of_python_3_9_reads_the_files(file: str) -> None:
    tree = ast.parse((NODES / "ansible" / file).read_text(), feature_version=(3, 9))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert calls
    assert not [call.lineno for call in calls for word in call.keywords if word.arg == "strict"]
    imported = {
        (node.module or "").split(".")[0]
        if isinstance(node, ast.ImportFrom)
        else node.names[0].name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert imported <= sys.stdlib_module_names | {"jinja2", "yaml"}


@given(bound=st.integers(0, 300_000), number=st.integers(0, 400_000))
def test_patterns_of_udev_match_the_smaller_numbers_and_no_others(bound: int, number: int) -> None:
    patterns = FILTERS.smaller_numbers(bound).split("|")
    assert any(fnmatch.fnmatchcase(str(number), each) for each in patterns) == (number < bound)


def test_a_node_is_asked_for_all_that_is_judged() -> None:
    asked = FILTERS.patterns(TABLE)
    assert "/proc/sys/net/ipv4/tcp_rmem" in asked
    assert "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor" in asked
    assert {"/sys/block/*/queue/scheduler", "/sys/block/*/queue/nr_requests"} <= set(asked)
    assert {"unit:chronyd", "unit:fstrim.timer"} <= set(asked)


def test_units_stand_as_systemd_says() -> None:
    text = (
        "exists /run/udev/control\nunits chrony ntpd tuned\nLoadState=loaded\nActiveState=active\n\n"
        "LoadState=not-found\nActiveState=inactive\n\nLoadState=masked\nActiveState=inactive"
    )
    assert FILTERS.units_read(text) == {
        "chrony": "loaded active",
        "ntpd": "not-found inactive",
        "tuned": "masked inactive",
    }
    assert FILTERS.units_read("MemTotal: 5 kB\n/proc/sys/vm/swappiness:60") == {}


def test_settings_are_read_by_path_and_the_chosen_word_counts() -> None:
    text = (
        "/proc/sys/net/ipv4/tcp_rmem:4096\t131072\t6291456\nno directory /etc/x/\nMemTotal:   5 kB\n"
        "/sys/a:on [madvise] off\n/sys/class/bdi/0:53/read_ahead_kb:128\n"
    )
    assert FILTERS.settings_read(text) == {
        "/proc/sys/net/ipv4/tcp_rmem": "4096 131072 6291456",
        "/sys/a": "madvise",
        "/sys/class/bdi/0:53/read_ahead_kb": "128",
    }


def test_what_differs_is_told_once_for_all_files_of_a_row() -> None:
    governors = row(
        kind="sysfs", key="devices/system/cpu/cpu*/cpufreq/scaling_governor", wanted="performance"
    )
    place = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor"
    found = {place.format(0): "powersave", place.format(1): "schedutil", place.format(2): "performance"}
    assert FILTERS.drift([governors], found) == [
        {
            "name": "a-row",
            "setting": "devices/system/cpu/cpu*/cpufreq/scaling_governor",
            "found": "powersave, schedutil",
            "wanted": "performance",
        }
    ]
    assert FILTERS.drift([governors], {place.format(0): "performance"}) == []


def test_a_setting_that_is_not_there_is_skipped_and_said() -> None:
    gone = row(key="net.ipv4.gone", absent="It went in Linux 9.")
    assert FILTERS.drift([gone], {}) == []
    assert FILTERS.settings_to_write([gone], {}) == []
    assert FILTERS.absent([gone], {}) == [
        {"name": "a-row", "setting": "net.ipv4.gone", "skipped": "It went in Linux 9."}
    ]


@pytest.mark.parametrize(
    ("value", "lines"),
    [("60", ["10"]), ("10", ["10"]), ("1", [])],
    ids=["worse: is set", "as wanted: stays set", "better: is left alone"],
)
def test_what_is_better_already_is_left_alone(value: str, lines: list[str]) -> None:
    kept = FILTERS.settings_to_write([row(compare="at-most")], {"/proc/sys/vm/swappiness": value})
    assert [line["value"] for line in kept] == lines


def queue(name: str, **settings: str) -> dict[str, str]:
    return {f"/sys/block/{name}/queue/{key}": value for key, value in settings.items()}


def test_disks_are_held_against_the_rows_of_their_medium() -> None:
    rows = FILTERS.tuning_rows(TABLE, ["compute"], SIZE)["block"]
    found = {
        **queue("nvme0n1", scheduler="mq-deadline", read_ahead_kb="128", rotational="0"),
        **queue("sda", scheduler="bfq", read_ahead_kb="8192", rotational="1", nr_requests="64"),
        **queue("vda", scheduler="none", read_ahead_kb="16384", rotational="1", nr_requests="64"),
        **queue("loop0", scheduler="none", read_ahead_kb="128", rotational="0"),
        **queue("md127", scheduler="none", read_ahead_kb="128", rotational="0", max_sectors_kb="127"),
    }
    told = {(each["setting"], each["found"], each["wanted"]) for each in FILTERS.disk_drift(rows, found)}
    assert told == {
        ("nvme0n1 scheduler", "mq-deadline", "none"),
        ("nvme0n1 read_ahead_kb", "128", "8192"),
        ("sda scheduler", "bfq", "mq-deadline"),
        ("sda nr_requests", "64", "256"),
        ("md127 read_ahead_kb", "128", "8192"),
    }


@pytest.mark.parametrize(("most", "told"), [("2048", True), ("256", False)])
def test_a_disk_is_not_asked_for_more_than_it_can(most: str, told: bool) -> None:
    rows = FILTERS.tuning_rows(TABLE, ["compute"], SIZE)["block"]
    found = queue("sda", max_sectors_kb="256", max_hw_sectors_kb=most, rotational="0")
    assert bool(FILTERS.disk_drift(rows, found)) is told


def test_parameters_of_lustre_count_where_they_are_too_small() -> None:
    rows = [row(kind="lustre-client", key="osc.*.max_dirty_mb", wanted=256, compare="at-least")]
    text = "osc.scratch-OST0000-osc-ffff8e.max_dirty_mb 64\nosc.scratch-OST0001-osc-ffff8e.max_dirty_mb 490\n"
    assert [each["found"] for each in FILTERS.printed_drift(rows, text)] == ["64"]
    assert FILTERS.printed_drift(rows, text.replace(" 64", " 490")) == []
    assert FILTERS.printed_drift(rows, "") == []


def test_settings_of_spectrum_scale_are_compared_in_bytes() -> None:
    rows = [
        row(kind="scale", key="maxblocksize", wanted="16M", compare="at-least"),
        row(kind="scale", key="pagepool", wanted=1 << 30, compare="at-least"),
    ]
    text = "=== mmdiag: config ===\n   maxblocksize 4194304\n ! pagepool 4294967296\n"
    assert [each["setting"] for each in FILTERS.printed_drift(rows, text)] == ["maxblocksize"]


def test_what_is_printed_is_judged_by_its_whole_name_and_only_where_it_is_a_number() -> None:
    number, word = row(kind="toy", key="cache", wanted="64"), row(kind="toy", key="mode", wanted="fast")
    text = "cache_other 1\ncache default\nmode slow\nmode: 7\nmode slow down\n"
    assert [each["found"] for each in FILTERS.printed_drift([number, word], text)] == ["slow"]
    assert FILTERS.printed_drift([number, word], "cache 64\nmode fast\n") == []
    assert FILTERS.printed_drift([number], "cache 32K\ncache 64\n")[0]["found"] == "32K"


def test_a_kind_whose_rows_are_all_for_other_nodes_has_an_empty_list() -> None:
    found = FILTERS.tuning_rows(TABLE, ["compute"], SIZE)
    assert set(found) == {each.kind for each in tuning_rows()}
    assert found["lustre-server"] == []


def test_mounts_and_lines_of_fstab_are_told_apart() -> None:
    mounts = (
        "10.0.0.1@tcp:/scratch /lus\\040tre lustre rw,flock 0 0\n"
        "old /data nfs4 rw 0 0\nnew /data nfs4 ro 0 0\n"
    )
    assert FILTERS.mounted(mounts, "/lus tre")["options"] == ["rw", "flock"]
    assert FILTERS.mounted(mounts, "/data")["source"] == "new"
    assert FILTERS.mounted(mounts, "/dat") == {}
    ours = "# BEGIN gridwright /data\nnas1:/x /data nfs hard 0 0\n# END gridwright /data\n"
    assert FILTERS.foreign_line(ours, "/data") == ""
    assert FILTERS.foreign_line(ours + "nas2:/y /data nfs soft 0 0\n", "/data").startswith("nas2:")
    assert FILTERS.fstab_field("/lus tre") == "/lus\\040tre"


def test_packages_are_missing_where_the_database_does_not_say_installed() -> None:
    text = "installed mdadm\nconfig-files xfsprogs\npackage nfs-utils is not installed\n"
    missing = FILTERS.missing_packages(["mdadm", "xfsprogs", "nfs-utils"], text)
    assert [each["setting"] for each in missing] == ["package xfsprogs", "package nfs-utils"]
