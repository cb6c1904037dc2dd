"""Checks of the kernel that a node starts next: whether its file systems are there then, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gridwright.doctor.check import Judgement, NodeJudgement, Topic, idle, judged, unanswered, unknown
from gridwright.doctor.facts.node_facts import KernelFacts, KernelsFacts, NodeFacts
from gridwright.doctor.observation import Observation

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
