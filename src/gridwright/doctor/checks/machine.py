"""Checks of the machine below a node: memory, processors, errors that the kernel logged, services."""

from __future__ import annotations

from collections.abc import Iterator

from gridwright.doctor.check import Judgement, NodeJudgement, Topic, idle, judged, unknown
from gridwright.doctor.facts.node_facts import NodeFacts
from gridwright.doctor.observation import Observation
from gridwright.units import format_bytes

MACHINE = Topic("Machine")
MEMORY_PER_CORE_BYTES = 8 * 10**9
"""002.rec.memory: 8 GB for each physical core at least."""
USABLE_PART = 0.9
"""Kernel and firmware keep some of the memory that a node has."""
SWAPPED_PART = 0.01
"""Of memory: what the kernel swaps out of services that never run is less."""


@MACHINE.check(
    "memory-per-core",
    "warning",
    "a node has too little memory for its cores",
    reason="Sorts and joins spill to util, and files are read from disks again that could have been cached.",
    source="002.rec.memory; 002.rec.family_memory",
    remedy="choose nodes with more memory per core (gridwright catalog list shows it), or use fewer cores",
)
def _memory_per_core(observation: Observation) -> Iterator[NodeJudgement]:
    required = (
        observation.spec.requirements.memory_per_core
        if observation.spec and observation.spec.requirements
        else None
    )
    wanted = int(required or MEMORY_PER_CORE_BYTES)
    lab = observation.shares_one_kernel
    for node, facts in observation.facts.items():
        group = observation.group_of(node)
        cores = (group.cores if group else None) or (
            facts.processors.cores if facts.processors else facts.cpus
        )
        each = facts.memory_bytes / cores
        found = f"{format_bytes(int(each))} for each of {cores} cores"
        if observation.machine_group_of(node):
            yield NodeJudgement((node,), idle(f"{found}; it runs no jobs"))
            continue
        if lab:
            yield NodeJudgement((node,), idle(f"{found}; nodes of a lab share this machine's memory"))
            continue
        enough = each >= USABLE_PART * wanted
        yield NodeJudgement((node,), judged(enough, found, f"{format_bytes(wanted)} for each core"))


@MACHINE.node_check(
    "cores-off",
    "warning",
    "processors of a node are switched off",
    section="processors",
    reason="They were taken away by hand, by a power limit or after errors: the node is slower than others.",
    source="Linux Documentation/admin-guide/cputopology.rst, offline",
    remedy="see dmesg for why; to switch one on: echo 1 > /sys/devices/system/cpu/cpuN/online",
    reads=("processors",),
)
def _off(facts: NodeFacts) -> Judgement:
    offline = facts.processors.offline if facts.processors else None
    return judged(not offline, f"processors {offline} are off" if offline else "all are on", "all are on")


@MACHINE.node_check(
    "threads-counted",
    "info",
    "a node has several hardware threads to a core",
    section="processors",
    reason="Rates and memory are per physical core here. A scheduler that gives out threads starts twice "
    "the jobs that the disks were planned for.",
    source="slurm.conf(5), CPUs and ThreadsPerCore; gridwright help slurm",
    remedy="have Slurm give out cores (CPUs= equal to the cores), as gridwright render does, or switch "
    "threads off: echo off > /sys/devices/system/cpu/smt/control",
)
def _threads(facts: NodeFacts) -> Judgement:
    threads = facts.processors.threads_per_core if facts.processors else 1
    return judged(
        threads == 1, f"{threads} hardware threads to a core", "1, or a scheduler that counts cores"
    )


@MACHINE.node_check(
    "swap-in-use",
    "warning",
    "a node swaps",
    section="memory",
    reason="Jobs need more memory than there is: each page that comes back waits for a disk.",
    source="Linux Documentation/admin-guide/sysctl/vm.rst, swappiness",
    remedy="give jobs what memory they need (sbatch --mem), and have the scheduler keep to it",
    reads=("memory",),
)
def _swap(facts: NodeFacts) -> Judgement:
    memory = facts.memory
    if memory is None or not memory.swap_bytes:
        return idle("no swap")
    found = f"{format_bytes(memory.swap_used_bytes)} swapped out"
    return judged(memory.swap_used_bytes <= SWAPPED_PART * memory.total_bytes, found, "next to none in use")


def _declare_trouble(kind: str, name: str, fault: str, texts: tuple[str, str, str]) -> None:
    """A check for one kind of trouble in the kernel's log."""
    reason, source, remedy = texts

    def answers(observation: Observation) -> Iterator[NodeJudgement]:
        for node, facts in observation.facts.items():
            if observation.shares_one_kernel:
                yield NodeJudgement((node,), idle("nodes of a lab share this machine's kernel", "none"))
            elif facts.kernel_log is None:
                yield NodeJudgement((node,), unknown(facts, "kernel_log"))
            else:
                yield NodeJudgement((node,), _trouble(facts, kind))

    MACHINE.check(name, "warning", fault, reason=reason, source=source, remedy=remedy)(answers)


def _trouble(facts: NodeFacts, kind: str) -> Judgement:
    trouble = (facts.kernel_log or {}).get(kind)
    if trouble is None:
        return judged(True, "none in the kernel's log", "none")
    return judged(False, f"{trouble.count} times, last: {trouble.last}", "none")


for _kind, _name, _fault, *_texts in (
    (
        "memory-killed",
        "memory-killed",
        "a node ran out of memory and its kernel killed processes",
        "The kernel chose what to kill: a job, or a service that the node needs.",
        "Linux mm/oom_kill.c; Documentation/admin-guide/cgroup-v2.rst, memory.oom.group",
        "see who: dmesg | grep -i 'out of memory'; have the scheduler keep jobs to their memory",
    ),
    (
        "machine-check",
        "machine-errors",
        "the hardware of a node reported errors",
        "Memory or a processor fails: results may be wrong, and the node will crash.",
        "Linux Documentation/arch/x86/x86_64/machinecheck.rst; rasdaemon(1)",
        "drain the node and have it replaced; rasdaemon tells which part it is",
    ),
    (
        "disk-error",
        "disk-errors",
        "a disk or a local file system of a node reported errors",
        "Reads fail or are retried for seconds: a node that is slow and then loses data.",
        "Linux block/blk-core.c; ext4(5), errors",
        "see dmesg for the disk; smartctl -a tells its health; replace it",
    ),
    (
        "nvme-timeout",
        "nvme-timeouts",
        "an NVMe disk of a node does not answer at times",
        "Each timeout holds up all that is on the disk for half a minute.",
        "Linux drivers/nvme/host/core.c, io_timeout; Amazon EBS User Guide, NVMe I/O operation timeout",
        "raise nvme_core.io_timeout where the disk is a volume of a cloud; replace it where it is a disk",
    ),
    (
        "task-hung",
        "tasks-hung",
        "processes of a node hung for minutes",
        "A disk, a server or the kernel did not answer for two minutes and more.",
        "Linux Documentation/admin-guide/sysctl/kernel.rst, hung_task_timeout_secs",
        "see dmesg for what they waited for: the names of its functions tell the file system",
    ),
    (
        "server-silent",
        "servers-lost",
        "a node lost servers of a file system",
        "All jobs on the node that used it stood still, or failed when the server evicted the node.",
        "nfs(5), hard; Lustre Operations Manual, Lustre Recovery",
        "see dmesg for the server and the time; look at its load and at the network then",
    ),
):
    _declare_trouble(_kind, _name, _fault, (_texts[0], _texts[1], _texts[2]))


@MACHINE.node_check(
    "services-failed",
    "warning",
    "services of a node failed",
    section="services",
    reason="A service that failed at the start, such as slurmd, munge, a mount or the time service, leaves a "
    "node that looks alive and takes no jobs.",
    source="systemctl(1), list-units --failed",
    remedy="see why: systemctl status UNIT; after mending it: systemctl reset-failed UNIT",
)
def _services(facts: NodeFacts) -> Judgement:
    failed = facts.services.failed if facts.services else []
    shown = ", ".join(failed[:8]) + (f" and {len(failed) - 8} more" if len(failed) > 8 else "")
    return judged(not failed, shown or "none failed", "none failed")


@MACHINE.check(
    "selinux-enforcing",
    "info",
    "SELinux enforces on a node that mounts Lustre",
    reason="The paper sets permissive. Lustre clients have worked with SELinux enforcing since 2.8; what is "
    "left is that policies may refuse jobs files of a network file system, and that no grid needs it off.",
    source="000.tun.selinux (corrected: permissive is no longer needed); Lustre Operations Manual, SELinux "
    "policy enforcement on Lustre clients",
    remedy="where opens are refused (ausearch -m avc), mount with a context or set the type permissive: "
    "semanage permissive -a TYPE",
)
def _selinux(observation: Observation) -> Iterator[NodeJudgement]:
    for node, facts in observation.facts.items():
        if facts.system is None:
            yield NodeJudgement((node,), unknown(facts, "system"))
            continue
        mounts = facts.mounts or []
        if not any(mount.type == "lustre" for mount in mounts):
            yield NodeJudgement((node,), idle(f"{facts.system.selinux}; no Lustre is mounted"))
            continue
        found = facts.system.selinux
        yield NodeJudgement(
            (node,), judged(found != "enforcing", found, "permissive or off, or proven to work")
        )
