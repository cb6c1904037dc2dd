"""One check for each row of the tuning table: whether nodes are set as it says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial

from gridwright.doctor.check import Judgement, NodeJudgement, Observation, Topic, idle, judged, unanswered
from gridwright.doctor.facts.node_facts import DiskFacts, MountFacts, NodeFacts
from gridwright.errors import Level
from gridwright.setup.ansible.tuned_values import NEEDS_SCHEDULER, is_for_disk, is_right, shown
from gridwright.setup.tuning import (
    NodeSize,
    Role,
    TuningRow,
    Value,
    brought_kinds,
    desired_value,
    kind_words,
    tuning_rows,
)

_LOOKED_UP = ("sysctl", "sysfs", "limit", "service")
"""Kinds whose settings a node looks up by their keys; of disks, mounts and tuned it tells anyway."""
_ROLES: frozenset[Role] = frozenset({"compute"})
"""Of the nodes of a spec: servers of file systems and head nodes are no groups of it."""
_SETUP = "gridwright setup (--check --diff shows what it would change)"
_LOCAL = frozenset({"xfs", "ext4"})


def requested_settings() -> dict[str, list[str]]:
    """The keys of the table, by kind, for the request to nodes."""
    asked: dict[str, list[str]] = {}
    for row in tuning_rows():
        if row.kind == "service":
            asked.setdefault("service", []).extend(_units(row))
        elif row.kind in _LOOKED_UP:
            asked.setdefault(row.kind, []).append(row.key)
    return {kind: sorted(set(keys)) for kind, keys in asked.items()}


def requested_commands() -> dict[str, dict[str, list[str]]]:
    """The command for each key of the kinds that file systems bring, for the request to nodes."""
    kinds = brought_kinds()
    asked: dict[str, dict[str, list[str]]] = {}
    for row in tuning_rows():
        if row.kind in kinds:
            asked.setdefault(row.kind, {})[row.key] = list(kinds[row.kind].command(row.key))
    return asked


@cache
def tuning_topic() -> Topic:
    """The checks of all rows, in the order of the table."""
    topic = Topic("Tuning")
    for row in tuning_rows():
        reason = f"{row.reason} {row.corrected}" if row.corrected else row.reason
        topic.check(
            row.name,
            _level(row),
            f"{_setting(row)} is not as the tuning table has it",
            reason=reason,
            source=row.source,
            remedy=f"set it on all nodes: {_SETUP}",
        )(partial(_answers, row))
    return topic


def _level(row: TuningRow) -> Level:
    """An error only for a mount option that somebody set and that spoils data in silence, as localflock does.

    A grid that is merely not tuned works, and what fails then has a check of its own.
    """
    if row.kind == "mount" and row.compare == "absent":
        return row.level
    return "warning" if row.level == "error" else row.level


def _setting(row: TuningRow) -> str:
    words = kind_words(row.kind)
    return f"{words}{'' if words.endswith('/') else ' '}{row.key}"


def _units(row: TuningRow) -> list[str]:
    if row.key in ("time-sync", "host-name"):
        return []
    return [row.key]


def _answers(row: TuningRow, observation: Observation) -> Iterator[NodeJudgement]:
    # Nodes come in few sizes, and a formula is dear to work out.
    values = {
        size: desired_value(row, size) for size in {_size(facts) for facts in observation.facts.values()}
    }
    for node, facts in observation.facts.items():
        value = values[_size(facts)]
        expected = _expected(row, value)
        why_not = _why_not(row, facts, observation)
        if why_not is not None:
            yield NodeJudgement((node,), idle(why_not, expected))
            continue
        for judgement in _JUDGES.get(row.kind, _by_key)(row, value, facts, observation):
            remedy = _remedy(row, value)
            yield NodeJudgement(
                (node,), Judgement(judgement.ok, judgement.found, expected, judgement.applies, remedy)
            )


def _size(facts: NodeFacts) -> NodeSize:
    cores = facts.processors.cores if facts.processors else facts.cpus
    return NodeSize(facts.memory_bytes, cores, facts.cpus)


def _expected(row: TuningRow, value: Value) -> str:
    words = {"equal": "", "at-least": " at least", "at-most": " at most", "one-of": "", "absent": " not set"}
    if row.compare == "absent":
        return f"{row.key}{words['absent']}"
    what = "the disk can" if row.kind == "block" else "its server allows"
    bound = f", or what {what} ({row.bounded_by})" if row.bounded_by else ""
    if row.key == value:
        return _setting(row)
    return f"{_setting(row)} = {shown(value)}{words[row.compare]}{bound}"


def _remedy(row: TuningRow, value: Value) -> str | None:
    """What sets it now; None where nothing short of the playbook does."""
    if row.kind == "sysctl" and not isinstance(value, list):
        quoted = f"'{value}'" if " " in str(value) else str(value)
        return f"until the next start: sysctl -w {row.key}={quoted}; for good: {_SETUP}"
    if row.kind == "sysfs" and "*" not in row.key:
        return f"until the next start: echo {shown(value)} > /sys/{row.key}; for good: {_SETUP}"
    if row.key == "host-name":
        return "have /etc/hosts or DNS give the node's real address for its name, not 127.0.1.1"
    return None


def _why_not(row: TuningRow, facts: NodeFacts, observation: Observation) -> str | None:
    """Why a row is not for a node; None where it is."""
    if not _ROLES & set(row.roles):
        return f"for {' and '.join(row.roles)} nodes only"
    if observation.shares_one_kernel and row.kind != "mount":
        return "nodes of a lab share this machine's kernel and settings"
    kernel = facts.system.kernel if facts.system else ""
    if row.since and _older(kernel, row.since):
        return f"from {row.since} on; here is {kernel}"
    if row.until and not _older(kernel, row.until):
        return f"until {row.until}; {row.absent or ''}".rstrip("; ")
    types = {mount.type for mount in facts.mounts or ()}
    if row.filesystems and not types & set(row.filesystems):
        return f"no {' or '.join(row.filesystems)} is mounted"
    return None


def _older(kernel: str, release: str) -> bool:
    """Whether a kernel is older than a release such as `Linux 5.0`; other releases say nothing of it."""
    match = re.fullmatch(r"Linux (\d+)\.(\d+)", release)
    running = re.match(r"(\d+)\.(\d+)", kernel)
    if not match or not running:
        return False
    return (int(running[1]), int(running[2])) < (int(match[1]), int(match[2]))


Judge = Callable[[TuningRow, Value, NodeFacts, Observation], Iterator[Judgement]]


def _by_key(row: TuningRow, value: Value, facts: NodeFacts, observation: Observation) -> Iterator[Judgement]:
    """A setting that the node looked up by its key."""
    settings = facts.settings.get(row.kind)
    if settings is None:
        yield unanswered(f"not known: {facts.unknown.get(f'settings:{row.kind}', 'the node does not tell')}")
        return
    found = settings.get(row.key)
    brought, bound = brought_kinds().get(row.kind), None
    if brought is not None and found is not None and not found.startswith("?"):
        bound = brought.bound(found, row.bounded_by) if brought.bound and row.bounded_by else None
        found = brought.value(found, row.key)
    if found is None:
        yield idle(f"there is no {_setting(row)} here. {row.absent or ''}".strip())
    elif found.startswith("?"):
        yield unanswered(f"not known: {found[1:]}")
    else:
        yield judged(is_right(found, value, row.compare, bound), f"{_setting(row)} = {found}", "")


def _block(row: TuningRow, value: Value, facts: NodeFacts, observation: Observation) -> Iterator[Judgement]:
    disks = [
        disk
        for disk in facts.disks or ()
        if disk.size_bytes and is_for_disk(row.key, row.media, disk.medium, is_stacked=bool(disk.members))
    ]
    if not disks:
        yield idle(f"no disks of that kind ({', '.join(row.media or ['any'])})")
    for disk in disks:
        yield _of_disk(row, value, disk)


def _of_disk(row: TuningRow, value: Value, disk: DiskFacts) -> Judgement:
    found = disk.queue.get(row.key)
    if found is None:
        return idle(f"{disk.name} has no {row.key}. {row.absent or ''}".strip())
    bound = disk.queue.get(row.bounded_by) if row.bounded_by else None
    if row.key == NEEDS_SCHEDULER and disk.queue.get("scheduler") == "none":
        return idle(f"{disk.name} has no scheduler. {row.absent or ''}".strip())
    right = is_right(found, value, row.compare, bound)
    return judged(right, f"{disk.name}: {row.key} = {found}", "")


def _mount(row: TuningRow, value: Value, facts: NodeFacts, observation: Observation) -> Iterator[Judgement]:
    mounts = [mount for mount in facts.mounts or () if _is_tuned(row, mount, facts)]
    if not mounts:
        yield idle(f"no library or array lies on {' or '.join(row.filesystems or ['such a file system'])}")
    for mount in mounts:
        options = dict(each.partition("=")[::2] for each in mount.options.split(","))
        found = options.get(row.key)
        if row.compare == "absent":
            text = f"{mount.mount_point}: {row.key} is {'set' if found is not None else 'not set'}"
            yield judged(found is None, text, "")
            continue
        text = f"{mount.mount_point}: {row.key} is not set"
        if found is not None:
            text = f"{mount.mount_point}: {row.key}{f'={found}' if found else ''}"
        yield judged(found is not None and is_right(found or row.key, value, row.compare), text, "")


def _is_tuned(row: TuningRow, mount: MountFacts, facts: NodeFacts) -> bool:
    """Of local file systems those that libraries or arrays lie on: the system's own are not ours to tune."""
    if row.filesystems and mount.type not in row.filesystems:
        return False
    if any(each.partition("=")[0] in row.unless for each in mount.options.split(",")):
        return False
    ours = {library.mount_point for library in facts.libraries.values()} - {"/"}
    if facts.scratch:
        ours |= set(facts.scratch.mounted)
    return mount.type not in _LOCAL or mount.mount_point in ours


def _tuned(row: TuningRow, value: Value, facts: NodeFacts, observation: Observation) -> Iterator[Judgement]:
    if facts.tuned is None:
        yield idle(f"tuned keeps no profile here. {row.absent or ''}".strip())
    else:
        yield judged(is_right(facts.tuned, value, row.compare), f"profile {facts.tuned}", "")


def _service(row: TuningRow, value: Value, facts: NodeFacts, observation: Observation) -> Iterator[Judgement]:
    if row.key == "time-sync":
        yield _time_sync(facts)
    elif row.key == "host-name":
        yield _host_name(facts, observation)
    else:
        yield from _by_key(row, value, facts, observation)


def _time_sync(facts: NodeFacts) -> Judgement:
    if facts.clock is None:
        return unanswered("not known")
    if facts.system and facts.system.container and not facts.clock.keepers:
        return idle("in a container: its clock is that of the machine below it")
    keepers = ", ".join(facts.clock.keepers)
    right = bool(facts.clock.keepers) or facts.clock.synchronised
    return judged(right, keepers or ("synchronised" if right else "no time service runs"), "")


def _host_name(facts: NodeFacts, observation: Observation) -> Judgement:
    if facts.names is None:
        return unanswered(f"not known: {facts.unknown.get('names', '')}")
    found = (
        f"{facts.names.host}: {', '.join(facts.names.addresses) or facts.names.unresolved or 'no address'}"
    )
    if not observation.several:
        return idle(f"{found}; no other node asks for it")
    reached = [address for address in facts.names.addresses if not address.startswith(("127.", "::1"))]
    return judged(bool(reached), found, "")


_JUDGES: Mapping[str, Judge] = {"block": _block, "mount": _mount, "tuned": _tuned, "service": _service}
