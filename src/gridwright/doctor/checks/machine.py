"""Checks of one node by itself: memory, processors, services, network cards, next kernel, clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gridwright.doctor.check import (
    Judgement,
    NodeJudgement,
    Observation,
    Topic,
    idle,
    judged,
    unanswered,
    unknown,
)
from gridwright.doctor.checks.nodes import instance_of, odd_ones
from gridwright.doctor.facts.node_facts import InterfaceFacts, KernelFacts, KernelsFacts, NodeFacts
from gridwright.units import format_bytes, format_rate

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


NETWORK = Topic("Network")
ERRORS_PART = 1e-4
"""Of all packets; fewer are lost whenever a link starts. A choice of ours."""


def _cards(facts: NodeFacts) -> list[InterfaceFacts]:
    return [interface for interface in facts.interfaces or () if interface.real and interface.up]


def _speed(facts: NodeFacts) -> int | None:
    """Of all cards together, in bytes/s; None where one does not tell."""
    speeds = [card.bytes_per_s for card in _cards(facts)]
    known = [speed for speed in speeds if speed is not None]
    return sum(known) if known and len(known) == len(speeds) else None


@NETWORK.check(
    "nic-slow",
    "error",
    "the network cards of a node are slower than its type has",
    reason="All that data, work and util read and write over the network stays below what was planned.",
    source="Linux Documentation/ABI/testing/sysfs-class-net, speed; the catalogue",
    remedy="see ethtool NAME for the speed that was agreed on; see cable, switch and the type of the node",
)
def _slow(observation: Observation) -> Iterator[NodeJudgement]:
    for node, facts in observation.facts.items():
        if facts.interfaces is None:
            yield NodeJudgement((node,), unknown(facts, "interfaces"))
            continue
        speed, instance = _speed(facts), instance_of(observation, node)
        found = format_rate(speed) if speed else "virtual cards, which name no speed"
        if speed is None or instance is None:
            yield NodeJudgement((node,), idle(found))
            continue
        wanted = instance.network.baseline_bytes_per_s
        yield NodeJudgement(
            (node,), judged(speed >= wanted, found, f"{instance.name}: {format_rate(wanted)}")
        )


@NETWORK.check(
    "nic-differs",
    "warning",
    "a node has a slower or faster network than the others",
    reason="A cable or a port that fell back to a lower speed makes one node slow, and every launch with it.",
    source="Linux Documentation/ABI/testing/sysfs-class-net, speed",
    remedy="see ethtool NAME on this node and on another; see cable and switch",
)
def _differs(observation: Observation) -> Iterator[NodeJudgement]:
    def speed(facts: NodeFacts) -> str | None:
        found = _speed(facts)
        return format_rate(found) if found else None

    yield from odd_ones(observation, speed)


@NETWORK.check(
    "mtu-differs",
    "warning",
    "a node has another packet size than the others",
    reason="Large packets are dropped without a word on the way to a node with a smaller size: connections "
    "open and then hang.",
    source="ip-link(8), mtu; EC2 User Guide, Network MTU",
    remedy="set the same MTU on all nodes and servers: ip link set NAME mtu SIZE",
)
def _mtu(observation: Observation) -> Iterator[NodeJudgement]:
    def mtu(facts: NodeFacts) -> str | None:
        sizes = {interface.mtu for interface in facts.interfaces or () if interface.default and interface.mtu}
        return f"MTU {', '.join(map(str, sorted(sizes)))}" if sizes else None

    yield from odd_ones(observation, mtu)


@NETWORK.node_check(
    "nic-errors",
    "warning",
    "network cards of a node have errors",
    section="interfaces",
    reason="Each lost packet halves the rate of a TCP connection, which then grows back slowly.",
    source="Linux Documentation/networking/statistics.rst; RFC 5681, section 3",
    remedy="see which: ip -s -s link show NAME; see cable and switch, and ring sizes (ethtool -g NAME)",
)
def _errors(facts: NodeFacts) -> Judgement:
    wrong = []
    for card in _cards(facts):
        packets = card.counters.get("rx_packets", 0) + card.counters.get("tx_packets", 0)
        errors = sum(card.counters.get(name, 0) for name in ("rx_errors", "rx_missed_errors", "tx_errors"))
        if packets and errors > ERRORS_PART * packets:
            wrong.append(f"{card.name}: {errors} errors in {packets} packets")
    if not _cards(facts):
        return idle("no network cards")
    return judged(not wrong, "; ".join(wrong) or "next to none", "less than one in 10 000 packets")


KERNELS = Topic("Kernels")
_OF_THE_KERNEL = ("kernel/", "built in")
"""Where modules are that come with each kernel (modprobe(8), depmod.d(5): others are in updates or extra)."""
_BUILT_ANEW = "/dkms/"
"""Below it are modules that DKMS builds for each kernel that is installed."""


@KERNELS.check(
    "client-lost-at-restart",
    "warning",
    "the kernel that a node starts next has no module of a file system that it has mounted",
    reason="After the next restart, planned or not, the file system cannot be mounted there, and the node "
    "takes no jobs any more.",
    source="modprobe(8); depmod(8); FSx for Lustre User Guide, installing the Lustre client (packages are "
    "made for one kernel each)",
    remedy="install the module for that kernel, or have the node start the kernel that it runs: Debian and "
    "Ubuntu by GRUB_DEFAULT and update-grub, Red Hat by grubby --set-default; then hold it",
)
def _lost_at_restart(observation: Observation) -> Iterator[NodeJudgement]:
    for node, facts in observation.facts.items():
        yield NodeJudgement((node,), _judged(observation, facts, _lost))


@KERNELS.check(
    "kernel-not-held",
    "warning",
    "updates may bring a node another kernel, which has no module of a file system that it has mounted",
    reason="The module is made for this kernel. Updates that run by themselves bring another one, and the "
    "restart after them takes the file system away.",
    source="apt-mark(8), hold; dnf.conf(5), excludepkgs; FSx for Lustre User Guide, installing the client",
    remedy="gridwright setup holds it; by hand: apt-mark hold PACKAGE, or excludepkgs=kernel kernel-core in "
    "/etc/dnf/dnf.conf",
)
def _not_held(observation: Observation) -> Iterator[NodeJudgement]:
    for node, facts in observation.facts.items():
        yield NodeJudgement((node,), _judged(observation, facts, _free))


def _judged(
    observation: Observation, facts: NodeFacts, judge: Callable[[KernelsFacts, str, list[str]], Judgement]
) -> Judgement:
    if observation.shares_one_kernel:
        return idle("nodes of a lab share this machine's kernel")
    if facts.kernels is None or facts.system is None:
        return unknown(facts, "kernels" if facts.kernels is None else "system")
    if not facts.kernels.installed:
        return idle("no kernel is installed here: it is started from elsewhere")
    used = _used(facts)
    if not used:
        return idle("no file system of a module is mounted")
    return judge(facts.kernels, facts.system.kernel, used)


def _used(facts: NodeFacts) -> list[str]:
    """File systems of a module that are mounted, or that a library is on."""
    types = set(facts.kernels.types) if facts.kernels else set()
    here = {mount.type for mount in facts.mounts or ()}
    here |= {library.filesystem_type or "" for library in facts.libraries.values()}
    return sorted(types & here)


def _lost(kernels: KernelsFacts, running: str, used: list[str]) -> Judgement:
    """The kernel that starts next; where only root can tell, the newest one is taken for it."""
    starts = next((facts for facts in kernels.installed if facts.release == kernels.default), None)
    upcoming = starts or kernels.installed[0]
    taken = "" if starts else f", taken for it since it is the newest ({kernels.unknown_default})"
    lost = [each for each in used if each not in upcoming.modules]
    asked = "; a restart is asked for already" if kernels.restart_asked and lost else ""
    if not lost:
        return judged(True, f"{upcoming.release} starts next and has {', '.join(used)}", _WANTED)
    this = ", as it runs now," if upcoming.release == running else ""
    return judged(
        False, f"{upcoming.release} starts next{this}{taken} without module {', '.join(lost)}{asked}", _WANTED
    )


_WANTED = "a kernel with the modules of all file systems that are mounted"


def _free(kernels: KernelsFacts, running: str, used: list[str]) -> Judgement:
    this = next((facts for facts in kernels.installed if facts.release == running), None)
    made = [name for name in used if _is_made_for_one(this, name)]
    if not made:
        return idle(f"{', '.join(used)} of this kernel itself, or built for each kernel")
    if kernels.free is None:
        return unanswered("not known: neither dpkg nor dnf has anything to say of packages here")
    found = f"{', '.join(kernels.free)} may bring another one" if kernels.free else "held"
    return judged(not kernels.free, f"kernel {running} with {', '.join(made)}: {found}", "held")


def _is_made_for_one(kernel: KernelFacts | None, name: str) -> bool:
    path = kernel.modules.get(name, "") if kernel else ""
    return bool(path) and not path.startswith(_OF_THE_KERNEL) and _BUILT_ANEW not in f"/{path}"


TIME = Topic("Time")
APART_S = 2.0
"""More than the answer of a node takes on its way; samples of nodes are compared by second."""
WRONG_S = 60.0
"""A fifth of the five minutes for which credentials are taken (slurm.conf(5), AuthInfo, ttl)."""


def _offset(observation: Observation, node: str) -> float | None:
    return observation.clock_offsets_s.get(node)


def _words(offset: float) -> str:
    return f"{abs(offset):.0f} s {'ahead' if offset > 0 else 'behind'}"


@TIME.check(
    "clock-apart",
    "warning",
    "the clock of a node is off by seconds",
    reason="Times of files and logs mislead, and figures of nodes cannot be laid side by side.",
    source="chrony.conf(5), makestep",
    remedy="see whether a time service runs (chronyc tracking, timedatectl)",
)
def _apart(observation: Observation) -> Iterator[NodeJudgement]:
    expected = f"within {APART_S:.0f} s"
    for node in observation.facts:
        offset = _offset(observation, node)
        if offset is None:
            yield NodeJudgement((node,), unanswered("there is no other clock to compare with", expected))
        elif abs(offset) > WRONG_S:
            yield NodeJudgement((node,), idle(f"{_words(offset)}: see clock-wrong", expected))
        else:
            right = abs(offset) <= APART_S
            yield NodeJudgement((node,), judged(right, expected if right else _words(offset), expected))


@TIME.check(
    "clock-wrong",
    "error",
    "the clock of a node is off by minutes",
    reason="Slurm's and MUNGE's credentials count as expired after five minutes: no job starts there. "
    "Certificates and file times are wrong, too.",
    source="munged(8); slurm.conf(5), AuthInfo (ttl)",
    remedy="set it and keep it: chronyc makestep, systemctl enable --now chronyd",
)
def _wrong(observation: Observation) -> Iterator[NodeJudgement]:
    expected = f"within {WRONG_S:.0f} s"
    for node in observation.facts:
        offset = _offset(observation, node)
        if offset is None:
            yield NodeJudgement((node,), unanswered("there is no other clock to compare with", expected))
        else:
            right = abs(offset) <= WRONG_S
            yield NodeJudgement((node,), judged(right, expected if right else _words(offset), expected))


@TIME.node_check(
    "clock-unsynchronised",
    "warning",
    "a time service runs on a node and has no time to keep to",
    section="clock",
    reason="It runs, so nobody looks, and the clock drifts by seconds a day all the same.",
    source="adjtimex(2), STA_UNSYNC; chronyc(1), tracking",
    remedy="see which servers it asks and whether they answer: chronyc sources, timedatectl timesync-status",
)
def _synchronised(facts: NodeFacts) -> Judgement:
    clock = facts.clock
    if clock is None or not clock.keepers:
        return idle("no time service runs: see service-time-sync", "synchronised")
    keepers = ", ".join(clock.keepers)
    found = f"{keepers}: {'synchronised' if clock.synchronised else 'not synchronised'}"
    return judged(clock.synchronised, found, "synchronised")
