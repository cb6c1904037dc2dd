"""Every check of the doctor: it says why, by whose word and how to mend it; it can fail, and it can pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from gridwright.doctor.check import Check, Observation, PairFindings, Trial, Tried, results_of
from gridwright.doctor.checks import all_checks
from gridwright.doctor.facts.gather import gather
from gridwright.doctor.facts.node_facts import NodeFacts
from gridwright.doctor.messages import FactsRequest
from gridwright.doctor.reference import findings, refreshed
from gridwright.grid.nodes import Promised
from gridwright.schedulers.scheduler import SettingComparison
from gridwright.spec import parse_spec
from tests.support.doctor_grid import GIB, MACHINES, card, grid, machine, mount, sound

ROOT = Path(__file__).parents[3]
BOUGHT = parse_spec(
    "provider: aws\nregion: us-east-1\nnodes: {compute: {count: 2, instance: m5n.8xlarge}}\n"
    "filesystems: {shared: {type: lustre, path: /mnt/grid, source: '10.0.0.1@tcp:/scratch'}}\n"
    "libraries: {data: {}}\nscheduler: {type: slurm}\n"
)
ON_LUSTRE = sound(filesystem_type="lustre", source="10.0.0.1@tcp:/scratch")


def two(**changes: Any) -> Observation:
    """A grid whose second node is changed."""
    return grid(machine("compute1"), machine("compute2", **changes), spec=MACHINES)


def set_to(*, harmful: bool, ok: bool) -> Observation:
    """A grid whose scheduler has one setting that matters."""
    setting = SettingComparison(
        name="SelectType",
        found="select/cons_tres" if ok else "select/linear",
        recommended="select/cons_tres",
        cost="a job takes whole nodes",
        source="slurm.conf(5)",
        harmful=harmful,
        ok=ok,
        remedy="write SelectType=select/cons_tres",
    )
    return replace(two(), scheduler_settings=[setting])


def data(**changes: Any) -> Observation:
    return two(libraries={"data": replace(ON_LUSTRE, **changes)})


def work(**changes: object) -> Observation:
    usual = {
        "path": "/scratch/work",
        "filesystem_type": "xfs",
        "source": "/dev/md0",
        "mount_point": "/scratch",
    }
    return two(libraries={"data": ON_LUSTRE, "work": sound(**(usual | changes))})


def logged(kind: str) -> Observation:
    return two(kernel_log={kind: {"count": 2, "last": "the kernel's words"}})


def tried(trial: Trial, wrong: str | None = "compute2 got the lock that compute1 held") -> Observation:
    pairs = PairFindings((Tried("shared", ("compute1", "compute2"), trial, wrong),))
    return replace(two(), pairs=pairs)


def bought(**changes: Any) -> Observation:
    usual = {"processors": {"cores": 16, "threads_per_core": 2}, "memory_bytes": 126 * GIB, "cpus": 32}
    library = {"libraries": {"data": ON_LUSTRE}}
    nodes = (machine(name, **(usual | library | changes)) for name in ("compute1", "compute2"))
    return grid(*nodes, spec=BOUGHT)


def system(**changes: object) -> Observation:
    usual = {"kernel": "6.1.0", "architecture": "x86_64", "release": "debian 12", "identity": "compute2"}
    return two(system=usual | changes)


def untried() -> Observation:
    return replace(two(), pairs=PairFindings((), {("compute1", "compute2"): "compute2 has not answered"}))


def swapped() -> Observation:
    return two(
        memory={
            "total_bytes": 40 * GIB,
            "available_bytes": GIB,
            "swap_bytes": 4 * GIB,
            "swap_used_bytes": 2 * GIB,
        }
    )


def kernels(**changes: object) -> Observation:
    usual = {
        "installed": [{"release": "6.1.0", "modules": {"lustre": "updates/lustre.ko"}}],
        "default": "6.1.0",
        "types": ["lustre"],
        "free": [],
    }
    return two(kernels=usual | changes)


def array(**changes: object) -> Observation:
    usual = {"name": "md0", "level": "raid1", "state": "clean", "wanted": 2, "missing": 0, "action": "idle"}
    return two(arrays=[usual | changes])


FAILING: Mapping[str, Callable[[], Observation]] = {
    "node-silent": lambda: Observation(MACHINES, {}, {"compute1": "no answer in time"}, {}),
    "node-down": lambda: replace(two(), down={"compute2": "drained (bad disk)"}),
    "version-differs": lambda: two(version="0.0.9"),
    "kernel-differs": lambda: grid(
        *(machine(f"compute{n}") for n in (1, 3)),
        *system(kernel="5.10.0").facts.values(),
        spec=MACHINES,
    ),
    "system-differs": lambda: system(release="rocky 9"),
    "host-name-double": lambda: Observation(
        MACHINES, {"compute1": machine("template"), "compute2": machine("template")}, {}, {}
    ),
    "machine-id-double": lambda: system(identity="compute1"),
    "cores-missing": lambda: two(processors={"cores": 2, "threads_per_core": 1}),
    "memory-missing": lambda: two(memory_bytes=16 * GIB),
    "instance-smaller": lambda: bought(memory_bytes=32 * GIB),
    "scheduler-silent": lambda: replace(two(), scheduler_silent="scontrol has not answered for 10 s"),
    "scheduler-setting-harmful": lambda: set_to(harmful=True, ok=False),
    "scheduler-setting-differs": lambda: set_to(harmful=False, ok=False),
    "state-directory-unsafe": lambda: replace(
        two(), state_faults=["/state/slurm/alice: it belongs to mallory"]
    ),
    "scheduler-sees-other": lambda: replace(two(), promised={"compute2": Promised(64, GIB)}),
    "library-hangs": lambda: data(hangs=True),
    "library-missing": lambda: data(missing="No such file or directory"),
    "library-read-only": lambda: data(read_only=True),
    "library-suid": lambda: data(options="rw,nosuid"),
    "library-refuses": lambda: data(refused="Permission denied"),
    "library-for-reading": lambda: data(refused="Permission denied", reader="alice"),
    "library-closed": lambda: work(is_roots=True),
    "library-full": lambda: data(available_bytes=5 * GIB),
    "library-inodes": lambda: data(inodes_free=1),
    "library-short": lambda: data(available_bytes=0),
    "library-small": lambda: data(total_bytes=GIB // 2),
    "deletions-refused": lambda: replace(two(), refused_deletions={"archive": [("export", "half would go")]}),
    "library-in-memory": lambda: work(filesystem_type="tmpfs"),
    "flock-missing": lambda: data(locks={"flock": "Function not implemented", "fcntl": None}),
    "fcntl-missing": lambda: data(locks={"flock": None, "fcntl": "No locks available"}),
    "file-times-apart": lambda: data(file_times_off_s=-300.0),
    "library-elsewhere": lambda: data(filesystem_type="ext4"),
    "library-other-server": lambda: data(source="10.0.0.9@tcp:/test"),
    "library-not-mounted": lambda: data(mount_point="/"),
    "library-on-root": lambda: work(mount_point="/"),
    "libraries-together": lambda: work(source="10.0.0.1@tcp:/scratch", mount_point="/mnt/grid"),
    "work-over-network": lambda: work(filesystem_type="nfs4"),
    "data-on-one-node": lambda: data(filesystem_type="xfs"),
    "pair-untried": untried,
    "not-seen-by-others": lambda: tried("seen"),
    "read-after-write": lambda: tried("read"),
    "rename-unseen": lambda: tried("rename"),
    "flock-alone": lambda: tried("flock"),
    "fcntl-alone": lambda: tried("fcntl"),
    "append-torn": lambda: tried("append"),
    "filesystem-silent": lambda: replace(two(), filesystems={"shared": "mfscli cannot be started"}),
    "mount-hangs": lambda: two(mounts=[mount("/backup", hangs=True)]),
    "mount-broken": lambda: two(mounts=[mount("/backup", broken="Stale file handle")]),
    "disk-full": lambda: two(mounts=[mount("/", used_bytes=95 * GIB, available_bytes=5 * GIB)]),
    "disk-inodes": lambda: two(mounts=[mount("/", inodes_free=1)]),
    "disk-read-only": lambda: two(mounts=[mount("/var", options="relatime,ro")]),
    "tmp-in-memory": lambda: two(mounts=[mount("/tmp", type="tmpfs", source="tmpfs")]),
    "array-degraded": lambda: array(missing=1),
    "array-rebuilding": lambda: array(action="resync"),
    "scratch-not-mounted": lambda: two(scratch={"mounted": {"/scratch": False}}),
    "memory-per-core": lambda: two(memory_bytes=16 * GIB),
    "cores-off": lambda: two(processors={"cores": 4, "threads_per_core": 1, "offline": "4-7"}),
    "threads-counted": lambda: two(processors={"cores": 4, "threads_per_core": 2}),
    "swap-in-use": swapped,
    "memory-killed": lambda: logged("memory-killed"),
    "machine-errors": lambda: logged("machine-check"),
    "disk-errors": lambda: logged("disk-error"),
    "nvme-timeouts": lambda: logged("nvme-timeout"),
    "tasks-hung": lambda: logged("task-hung"),
    "servers-lost": lambda: logged("server-silent"),
    "services-failed": lambda: two(services={"failed": ["munge.service"]}),
    "selinux-enforcing": lambda: system(selinux="enforcing"),
    "client-lost-at-restart": lambda: kernels(installed=[{"release": "6.1.0"}]),
    "kernel-not-held": lambda: kernels(free=["linux-image-aws"]),
    "clock-apart": lambda: replace(two(), clock_offsets_s={"compute1": 0.0, "compute2": -7.0}),
    "clock-wrong": lambda: replace(two(), clock_offsets_s={"compute1": 0.0, "compute2": 300.0}),
    "clock-unsynchronised": lambda: two(clock={"synchronised": False, "keepers": ["chronyd"]}),
    "nic-slow": lambda: bought(interfaces=[card(bytes_per_s=125_000_000)]),
    "nic-differs": lambda: grid(
        *(machine(f"compute{n}") for n in (1, 3)),
        machine("compute2", interfaces=[card(bytes_per_s=125_000_000)]),
        spec=MACHINES,
    ),
    "mtu-differs": lambda: grid(
        *(machine(f"compute{n}") for n in (1, 3)),
        machine("compute2", interfaces=[card(mtu=1500)]),
        spec=MACHINES,
    ),
    "nic-errors": lambda: two(
        interfaces=[card(counters={"rx_packets": 1000, "tx_packets": 0, "rx_errors": 20})]
    ),
}
"""For each check that is no row of the tuning table (those have a test of their own): where it fails."""


def passing(name: str) -> Observation:
    """Where a check has something to judge, and finds it right."""
    if name == "instance-smaller":
        return bought()
    if name == "nic-slow":
        return bought(interfaces=[card()])
    if name.startswith("scheduler-setting"):
        return set_to(harmful=name.endswith("harmful"), ok=True)
    trials: dict[str, Trial] = {
        "not-seen-by-others": "seen",
        "read-after-write": "read",
        "rename-unseen": "rename",
        "flock-alone": "flock",
        "fcntl-alone": "fcntl",
        "append-torn": "append",
        "pair-untried": "seen",
    }
    if name in trials:
        return tried(trials[name], None)
    return replace(
        two(),
        clock_offsets_s={"compute1": 0.0, "compute2": 0.0},
        promised={"compute1": Promised(4, 32 * GIB)},
        filesystems={"shared": ()},
        state_faults=(),
        refused_deletions={"archive": []},
    )


DECLARED = [check for check in all_checks() if check.topic != "Tuning"]


def named(check: Check) -> str:
    return check.name


def test_there_are_checks_and_no_name_is_there_twice() -> None:
    names = [check.name for check in all_checks()]
    assert len(names) > 120
    assert len(set(names)) == len(names)
    assert set(FAILING) == {check.name for check in DECLARED}


@pytest.mark.parametrize("check", all_checks(), ids=named)
def test_a_check_says_why_by_whose_word_and_how_to_mend_it(check: Check) -> None:
    for text in (check.fault, check.reason, check.source, check.remedy):
        assert text.strip() == text and len(text) > 5
    assert not check.fault.endswith(".")


@pytest.mark.parametrize("check", DECLARED, ids=named)
def test_a_check_fails_where_it_ought_to(check: Check) -> None:
    found = [each for each in results_of(FAILING[check.name](), [check]) if each.name == check.name]
    wrong = [each for each in found if not each.ok]
    assert len(wrong) == 1, found
    assert wrong[0].found and wrong[0].expected
    assert wrong[0].level == check.level


@pytest.mark.parametrize("check", DECLARED, ids=named)
def test_a_check_passes_on_a_sound_grid(check: Check) -> None:
    found = [each for each in results_of(passing(check.name), [check]) if each.name == check.name]
    assert found
    assert [each for each in found if not each.ok] == []
    assert any(each.applies for each in found), found


@pytest.mark.parametrize("check", all_checks(), ids=named)
def test_a_check_has_a_result_where_nothing_is_known(check: Check) -> None:
    bare = NodeFacts("compute1", "0", time=0.0, cpus=1, memory_bytes=64 * GIB, libraries={})
    for seen in (Observation(None, {"compute1": bare}, {}, {}), Observation(MACHINES, {}, {}, {})):
        found = results_of(seen, [check])
        assert len(found) >= 1
        assert all(each.found for each in found)
        if check.name != "version-differs":
            assert all(each.ok for each in found)


def test_the_page_of_checks_is_current() -> None:
    text = (ROOT / "docs" / "doctor.md").read_text()
    assert text == refreshed(text), "run python -m gridwright.doctor.reference docs/doctor.md"
    with pytest.raises(ValueError, match="lacks"):
        refreshed("no markers")


def test_every_check_can_be_silenced() -> None:
    path = ROOT / "src" / "gridwright" / "spec" / "data" / "findings.csv"
    text = path.read_text()
    assert text == findings(text), f"run python -m gridwright.doctor.reference {path.relative_to(ROOT)}"


CHEAP = [check for check in all_checks() if check.is_cheap]
_ALWAYS_TOLD = {
    "hostname",
    "version",
    "time",
    "cpus",
    "memory_bytes",
    "health",
    "targets_away",
    "unknown",
    "more",
}


def no_more_than(facts: NodeFacts, sections: Collection[str]) -> NodeFacts:
    """What a node tells that is asked for these sections only."""
    left_out = {each.name for each in fields(facts)} - _ALWAYS_TOLD - set(sections)
    empty: dict[str, Any] = {"libraries": {}, "settings": {}}
    changes: dict[str, Any] = {name: empty.get(name) for name in left_out}
    return replace(facts, **changes)


def test_some_checks_are_cheap() -> None:
    assert {"library-hangs", "node-silent", "mount-hangs"} <= {check.name for check in CHEAP}
    known = {each.name for each in fields(NodeFacts)}
    assert all(check.reads <= known for check in CHEAP if check.reads is not None)


@pytest.mark.parametrize("check", CHEAP, ids=named)
def test_a_cheap_check_reads_no_more_than_it_says(check: Check) -> None:
    for seen in (FAILING[check.name](), passing(check.name)):
        facts = {node: no_more_than(each, check.reads or ()) for node, each in seen.facts.items()}
        assert results_of(replace(seen, facts=facts), [check]) == results_of(seen, [check])


def test_a_node_tells_the_sections_that_it_is_asked_for(tmp_path: Path) -> None:
    asked = FactsRequest({"data": str(tmp_path)}, sections=["memory", "mounts"])
    facts = gather(asked)
    assert facts.memory is not None and facts.mounts and facts.libraries["data"].locks is not None
    told = {"libraries", "memory", "mounts"}
    assert no_more_than(facts, told) == facts
    assert gather(FactsRequest({}, sections=[])).mounts is None
