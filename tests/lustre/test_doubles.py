"""Doubles of lctl and lfs df print what the tools do: the same questions go to both.

What differs between two file systems does not count: names, numbers, and what traffic adds. The doubles of
other commands of lfs, of changelogs, liblustreapi and mkfs.lustre have tests beside what they stand for.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from gridwright.filesystems.lustre_client import connections, metadata_servers, targets
from gridwright.filesystems.lustre_client.health import health
from gridwright.filesystems.lustre_client.parameters import LIMIT_S, parse_parameters
from gridwright.filesystems.lustre_client.targets import _PARTS, parse_target_space
from tests.fixtures.lustre_node import (
    LustreNode,
    healthy_node,
    ost_deactivated,
    ost_flagged,
    printed,
    recorded_parameters,
    server_node,
)
from tests.support.lustre_forms import OF_A_DAY, TOLD, form_of, forms_of_health
from tests.support.lustre_vm import LustreMachine

SPACE = tuple(f"{layer}.FS-*-{layer}-[!M]*.{part}" for layer in ("osc", "mdc") for part in _PARTS)
CLIENT = (*connections.parameter_names("FS"), *SPACE, "lov.FS-clilov-*.numobd", "nosuch.FS-*.x", "osc.*.y")
SERVER = (
    *targets.parameter_names("FS"),
    *metadata_servers.parameter_names("FS"),
    *metadata_servers.parameter_names("FS"),
)
UNRECORDED = frozenset({"obdfilter.FS-OSTN.readonly", "osp.FS-OSTN-osc-MDTN.active"})
"""Of these the double has what its tests give it; the next one names them, too."""
UNRECORDED |= {"osp.FS-OSTN-osc-MDTN.max_create_count"}
OF_TRAFFIC = re.compile(
    r"^\s*(?:(?:read|write)_data_averages|bytes_per_rpc|usecs_per_rpc|MB_per_sec):|^\s*cl\d"
)
"""Lines that a connection has once bytes went over it, and those of users of changelogs."""
STATISTICS = {
    "350-after-read-c-osc-stats": ("osc.FS-OST*-osc-[!M]*.stats", ("read_bytes", "write_bytes")),
    "350-after-read-b-obdfilter-stats": ("obdfilter.FS-OST*.stats", ("read_bytes", "write_bytes")),
    "330-after-write-d-llite-stats": ("llite.FS-*.stats", ("write_bytes",)),
    "350-after-read-i-job_stats-ost": (
        "obdfilter.FS-OST*.job_stats",
        ("read_bytes", "write_bytes", "job_id"),
    ),
}
"""Recordings of counters, by what parameter they have, and rows that Gridwright reads."""
TRAFFIC = """
lctl set_param -n jobid_var=procname_uid
cd /mnt/lustre && lfs setstripe -c 2 -S 64k counted && head -c 1M /dev/urandom >counted && sync
lctl set_param -n 'ldlm.namespaces.testfs-*.lru_size=clear'
cat counted /mnt/lustre2/counted >/dev/null; rm counted
lctl set_param -n jobid_var=disable
"""
FLAG = "obdfilter.testfs-OST0000.degraded"
DEVICE = "osc.testfs-OST0001-osc-[!M]*"
ASKED = """
lctl get_param NAME nosuch.x.y; echo $?
lctl get_param -n NAME; echo $?
lctl set_param NAME=6; echo $?
lctl get_param -n NAME
lctl set_param NAME=300; echo $?
lctl set_param nosuch.x.y=3; echo $?
lctl set_param NAME=7
"""
"""The last one is what both had before."""
MODIFYING = "mdc.FS-MDT0000-mdc-CLIENT.max_mod_rpcs_in_flight"


def forms(printed_text: str, names: Sequence[str]) -> dict[str, set[str]]:
    """The lines of each parameter that was printed."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, value in parse_parameters(printed_text, names).values.items():
        lines = value.splitlines() or [""]
        found[form_of(name)] |= {form_of(each) for each in lines if not OF_TRAFFIC.match(each)}
    return dict(found)


def of(filesystem: str, names: Collection[str]) -> list[str]:
    return [each.replace("FS", filesystem) for each in names]


def asked_real(lustre: LustreMachine, names: Collection[str]) -> tuple[int, dict[str, set[str]], list[str]]:
    real = of("testfs", names)
    said = lustre.run(shlex.join(["lctl", "get_param", *real]), ok=False)
    return said.status, forms(said.out, real), [form_of(each) for each in said.err.splitlines()]


def asked_double(node: LustreNode, names: Collection[str]) -> tuple[int, dict[str, set[str]], list[str]]:
    recorded = of("scratch", names)
    said = node(["lctl", "get_param", *recorded], timeout_s=LIMIT_S)
    return (
        said.status,
        forms(said.stdout.decode(), recorded),
        [form_of(each) for each in said.stderr.decode().splitlines()],
    )


def test_a_recorded_client_has_the_parameters_and_the_errors_of_a_real_one(lustre: LustreMachine) -> None:
    assert asked_double(healthy_node(), CLIENT) == asked_real(lustre, CLIENT)


def test_a_recorded_server_has_the_parameters_of_a_real_one(lustre: LustreMachine) -> None:
    _, real, _ = asked_real(lustre, SERVER)
    _, double, _ = asked_double(server_node(), SERVER)
    assert real.keys() - double.keys() == UNRECORDED
    assert double == {name: lines for name, lines in real.items() if name in double}
    assert all(real[name] == {"N"} for name in UNRECORDED)


def test_recorded_counters_have_the_rows_of_real_ones(lustre: LustreMachine) -> None:
    names = [name for name, _ in STATISTICS.values()]
    said = lustre.run(f"{TRAFFIC}\n{shlex.join(['lctl', 'get_param', *of('testfs', names)])}").out
    for recording, (name, needed) in STATISTICS.items():
        real, double = (
            dict(rows(forms(text, of(filesystem, [name]))))
            for text, filesystem in ((said, "testfs"), (printed(recording), "scratch"))
        )
        assert set(needed) <= real.keys() & double.keys(), recording
        for row in real.keys() & double.keys():
            assert double[row] == real[row], (recording, row)


def rows(found: dict[str, set[str]]) -> Iterator[tuple[str, str]]:
    """By their first words, of which one of traffic has a single form."""
    (lines,) = found.values()
    for each in lines:
        yield each.removeprefix("- ").split()[0].rstrip(":"), each


@pytest.fixture(scope="module")
def told(lustre: LustreMachine) -> dict[str, Any]:
    """What is said of the real one in each state."""
    found = {"healthy": json.loads(lustre.python(TOLD))}
    # The double has one mount: on the guest both are switched off.
    for state, flag, on, off in (("deactivated", f"{DEVICE}.active", 0, 1), ("flagged", FLAG, 1, 0)):
        lustre.run(f"lctl set_param -n '{flag}={on}'")
        try:
            found[state] = json.loads(lustre.python(TOLD))
        finally:
            lustre.run(f"lctl set_param -n '{flag}={off}'")
    # The client has what it was told some seconds ago.
    flags = "lfs df /mnt/lustre /mnt/lustre2 | grep -q ' [A-Z]$'"
    lustre.run(f"for i in $(seq 30); do {flags} || exit 0; sleep 1; done; exit 1")
    return found


@pytest.mark.parametrize(
    ("state", "node"), [("healthy", healthy_node), ("deactivated", ost_deactivated), ("flagged", ost_flagged)]
)
def test_a_recorded_state_is_told_as_a_real_one(
    told: dict[str, Any], state: str, node: Callable[[], LustreNode]
) -> None:
    found = health(node(), "/mnt/scratch", pause=lambda _: None)
    assert forms_of_health(asdict(found), without=OF_A_DAY) == forms_of_health(told[state], without=OF_A_DAY)


def test_lfs_df_prints_what_was_recorded(lustre: LustreMachine) -> None:
    real, double = lustre.run("lfs df /mnt/lustre").out, printed("client-02-lfs-df")
    rows_of = [
        [form_of(each.replace("/mnt/scratch", "/mnt/lustre")) for each in text.splitlines()]
        for text in (real, double)
    ]
    assert rows_of[0] == rows_of[1][: len(rows_of[0])]
    spaces = parse_target_space(real, "lfs df")
    assert [len(each) for each in spaces.values()] == [
        len(each) for each in parse_target_space(double, "x").values()
    ]


def test_the_double_of_lctl_sets_parameters_and_refuses_as_lustre_does(
    lustre: LustreMachine, tmp_path: Path
) -> None:
    name = lustre.run("lctl get_param -N 'mdc.testfs-*.max_mod_rpcs_in_flight' | head -1").out.strip()
    assert form_of(name) == form_of(MODIFYING.replace("FS", "testfs"))
    recorded = recorded_parameters("drop-max-mod-rpcs")
    double = next(each for each in recorded if each.endswith("max_mod_rpcs_in_flight") and "mdc" in each)
    state = {"parameters": {double: "7"}, "limits": {"max_mod_rpcs_in_flight": 8}}
    (tmp_path / "state.json").write_text(json.dumps(state))
    place = Path(__file__).parents[1] / "support/lustre_double"
    environment = {"LCTL_DOUBLE": f"{tmp_path}/state.json", "PATH": f"{place}:{os.environ['PATH']}"}
    ended = subprocess.run(
        ["sh", "-c", ASKED.replace("NAME", double)], env=os.environ | environment, capture_output=True,
        text=True, timeout=60, check=True,
    )  # fmt: skip
    real = lustre.run(ASKED.replace("NAME", name))
    for ours, theirs in ((ended.stdout, real.out), (ended.stderr, real.err)):
        assert [form_of(each) for each in ours.splitlines()] == [
            form_of(each) for each in theirs.splitlines()
        ]
