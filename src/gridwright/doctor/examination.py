"""Looks at every node of a grid, read-only, and says what is wrong.

Asks for the health of file systems: their servers from the head node, or each node as a client.
"""

from __future__ import annotations

import logging
import socket
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from gridwright.bounded import Hangs, call_bounded
from gridwright.commands import CommandOutput, CommandSilent, run_here
from gridwright.doctor.access import NodeAccess, RunOn
from gridwright.doctor.check import (
    Check,
    CheckResult,
    Observation,
    PairFindings,
    SearchedFiles,
    counts,
    results_of,
)
from gridwright.doctor.checks import all_checks
from gridwright.doctor.checks.tuning import requested_commands, requested_settings, tuning_topic
from gridwright.doctor.facts.filesystems import HEALTH_S, mounted
from gridwright.doctor.facts.gather import LOOK_S, gather
from gridwright.doctor.facts.node_facts import MountFacts, NodeFacts
from gridwright.doctor.messages import FactsRequest
from gridwright.doctor.probes.pairs import probe_pairs
from gridwright.errors import Finding, GridwrightError
from gridwright.filesystems import all_kinds, kind_of
from gridwright.filesystems.health import INCOMPLETE, LATE_S, Condition, Run
from gridwright.filesystems.kind import Layouts, ServerHealth
from gridwright.filesystems.layout import DesiredLayout
from gridwright.filesystems.library_directories import directory_findings, layout_in_spec
from gridwright.filesystems.mounts import is_served
from gridwright.messages import MessageError, decode, encode
from gridwright.schedulers.ssh_head import why_no_ssh
from gridwright.setup.tuning import refuse_broken_tables
from gridwright.spec.linked import changelog_user
from gridwright.spec.model import GridSpec


def filesystem_requests(spec: GridSpec) -> dict[str, dict[str, Any]]:
    """File systems that each node is asked about, as plain data: what one client sees, another may not."""
    own_disks = spec.provider_kind.has_own_kernels
    return {
        name: filesystem.model_dump(mode="json", exclude_none=True)
        | _archives(spec, name)
        | _users(spec, name)
        for name, filesystem in spec.filesystems.items()
        # The disks of a lab's nodes are those of this machine.
        if not isinstance(kind_of(filesystem), ServerHealth) and (own_disks or not filesystem.is_node_local)
    }


def mounted_here() -> dict[str, dict[str, Any]]:
    """The same without a spec: what this machine has mounted of servers, by where it is; each source once."""
    found: dict[str, dict[str, Any]] = {}
    sources: set[str] = set()
    try:
        mounts = call_bounded(mounted, LOOK_S)
    except (Hangs, OSError):
        return found
    for mount in sorted(mounts, key=lambda each: len(each.mount_point)):
        described = _described(mount) if is_served(mount.type) and mount.source not in sources else None
        if described is not None:
            sources.add(mount.source)
            found[mount.mount_point] = described
    return found


def _described(mount: MountFacts) -> dict[str, Any] | None:
    """A mount as a spec has it; None where no kind takes that, or servers are asked and not clients."""
    for name, kind in all_kinds():
        described = {"type": name, "source": mount.source, "path": mount.mount_point}
        if mount.type in kind.kernel_types and not isinstance(kind, ServerHealth):
            with suppress(ValueError):
                kind.spec_model.model_validate(described)
                return described
    return None


def _archives(spec: GridSpec, filesystem: str) -> dict[str, list[int]]:
    """The archives of Lustre's HSM that repositories on a file system are; nothing where none is one."""
    found = [
        archive
        for name, repository in spec.repositories.items()
        if spec.libraries[repository.library].filesystem == filesystem
        and (archive := spec.hsm_archive(name)) is not None
    ]
    return {"hsm_archives": sorted(found)} if found else {}


def _users(spec: GridSpec, filesystem: str) -> dict[str, list[str]]:
    """The names that repositories on a file system are registered under; nothing where none is."""
    found = [
        user
        for name, repository in spec.repositories.items()
        if spec.libraries[repository.library].filesystem == filesystem
        and (user := changelog_user(spec, name)) is not None
    ]
    return {"changelog_users": sorted(found)} if found else {}


def with_servers(observation: Observation, run: Run) -> Observation:
    """The same with what is wrong with each file system whose servers can be asked, or why they cannot be.

    And the state of each target and server that is not up (`Health.away`). `run` is that of the head node.
    """
    found: dict[str, Sequence[Finding] | str] = {}
    away: dict[str, dict[str, str]] = {}
    silent: set[str] = set()
    for name, filesystem in (observation.spec.filesystems if observation.spec else {}).items():
        kind = kind_of(filesystem)
        if isinstance(kind, ServerHealth):
            try:
                health = kind.server_health(run, _server(observation, name))
            except GridwrightError as error:
                found[name] = str(error)
            else:
                found[name] = health.findings
                if (states := health.away) is not None:
                    away[name] = states
                if health.condition is Condition.SILENT:
                    silent.add(name)
    return replace(observation, filesystems=found, targets_away=away, servers_silent=silent)


def search_of_filesystems(
    observation: Observation, run: Run, run_on: RunOn | None = None
) -> dict[str, SearchedFiles]:
    """Of each file system whose servers cannot be asked: what is wrong with files of its libraries.

    `run` is that of the head node, `run_on` that of a machine which has mounted a file system.
    """
    return {
        name: _of_libraries(observation, name, run, run_on)
        for name, filesystem in (observation.spec.filesystems if observation.spec else {}).items()
        if not isinstance(kind_of(filesystem), ServerHealth)
    }


def _of_libraries(observation: Observation, filesystem: str, run: Run, run_on: RunOn | None) -> SearchedFiles:
    """What is wrong with files of the libraries on a file system, where it answers.

    Asked on one machine only, as it searches for some seconds: the head node, or, where files have layouts
    and it has not mounted them, a node that has.
    """
    spec = observation.spec
    findings: list[Finding] = []
    complete = bool(observation.facts)
    for role, library in (spec.libraries if spec else {}).items():
        looks = [facts.libraries[role] for facts in observation.facts.values() if role in facts.libraries]
        if spec is None or library.filesystem != filesystem:
            continue
        if any(look.hangs for look in looks):
            complete = False
            continue
        # A search would wait for a target that is away, which has been told already.
        if any(observation.away(node, filesystem) for node in observation.facts) or any(
            each.level == "error" or each.name == INCOMPLETE
            for facts in observation.facts.values()
            for each in facts.health.get(filesystem, ())
        ):
            complete = False
            continue
        described = spec.filesystems[filesystem]
        kind, directory = kind_of(described), str(spec.library_directory(role))
        if run_on is not None and described.takes_layouts:
            with suppress(GridwrightError):
                run = run_on(described)
        wish = observation.wishes.get(str(role)) or layout_in_spec(described, str(role), library)
        for search in (directory_findings, kind.library_findings) if isinstance(kind, Layouts) else ():
            try:
                findings += search(described, run, directory, wish)
            except CommandSilent:
                # What hangs in one library hangs in the next.
                return SearchedFiles(findings, False)
            except GridwrightError:
                complete = False
    return SearchedFiles(findings, complete)


def _server(observation: Observation, filesystem: str) -> str | None:
    """The server that the nodes have mounted it from."""
    if observation.spec is None:
        return None
    kind = kind_of(observation.spec.filesystems[filesystem])
    if not isinstance(kind, ServerHealth):
        return None
    for facts in observation.facts.values():
        for role, library in observation.spec.libraries.items():
            source = facts.libraries[role].source if role in facts.libraries else None
            if library.filesystem == filesystem and source and (host := kind.server_of_mount(source)):
                return host
    return None


_LOG = logging.getLogger("gridwright.doctor")
_MOST_SAID = 1000
"""Characters of why a node is silent: the names of files in it may be long."""
FACTS = (sys.executable, "-P", "-m", "gridwright.doctor.facts.gather")
ANSWER_S = 15.0
"""For a node that is slow to start a program, beyond the time that its looks may take."""


def examine(spec: GridSpec | None, access: NodeAccess | None, *, pairs: bool = False) -> list[CheckResult]:
    """Every check of the nodes of a grid and of what they share; without `access`, of this node.

    `pairs`: nodes also try their shared file systems together. Takes LOOK_S where something hangs, HEALTH_S
    and LATE_S where a file system tells nothing, and never hangs itself.
    """
    return results_of(see(spec, access, pairs=pairs), all_checks())


def see(
    spec: GridSpec | None,
    access: NodeAccess | None,
    *,
    pairs: bool,
    wishes: Mapping[str, DesiredLayout] | None = None,
    only: Collection[Check] | None = None,
) -> Observation:
    """Look at all that the checks judge; `wishes` has the layouts that libraries are to have, by name.

    With `only` no more is looked at than these cheap checks read: no settings, and no files of libraries.
    Raises GridwrightError (status ENVIRONMENT) where an extension's tuning table cannot be used.
    """
    if spec is not None:
        refuse_broken_tables(spec)
    request = _request(spec, only)
    if access is None:
        facts = gather(request)
        observation = Observation(spec, {socket.gethostname(): facts}, {}, {}, wishes=wishes or {})
        return _with_health(observation, run_here, None, only)
    if spec is None:
        raise ValueError("nodes are those of a spec")
    before = time.time()
    with _timed("facts of the nodes"):
        looks_s = HEALTH_S + LATE_S if request.filesystems else LOOK_S
        answers = access.reach(FACTS, encode(request), ANSWER_S + looks_s)
    observation = replace(observation_of(spec, answers, before, time.time()), wishes=wishes or {})
    with _timed("trials of pairs"):
        tried = probe_pairs(observation, access.attach) if pairs and access.attach else None
    with _timed("health of file systems"):
        seen = _with_health(observation, access.run, access.run_on, only)
    return replace(
        seen,
        down=access.down,
        asleep=tuple(access.asleep),
        known=frozenset(access.names) | frozenset(access.asleep),
        promised=access.promised,
        scheduler_silent=access.scheduler_silent,
        scheduler_settings=access.scheduler_settings,
        state_faults=access.state_faults,
        pairs=tried,
        clock_offsets_s=_clocks(observation.clock_offsets_s, tried),
    )


def _request(spec: GridSpec | None, only: Collection[Check] | None) -> FactsRequest:
    """What nodes are asked for: all, or the sections that cheap checks read."""
    libraries = {str(name): str(spec.library_directory(name)) for name in spec.libraries} if spec else {}
    filesystems = filesystem_requests(spec) if spec else mounted_here()
    if only is None:
        return FactsRequest(libraries, requested_settings(), requested_commands(), filesystems)
    reads = frozenset().union(*(check.reads or () for check in only))
    return FactsRequest(
        libraries if "libraries" in reads else {},
        filesystems=filesystems if "health" in reads else {},
        sections=sorted(reads - {"libraries", "health"}),
    )


def _with_health(
    observation: Observation, run: Run, run_on: RunOn | None, only: Collection[Check] | None
) -> Observation:
    """The same with what servers tell, and what is wrong with files where all is looked at."""
    if observation.spec is None or (
        only is not None and not any("health" in (check.reads or ()) for check in only)
    ):
        return observation
    return replace(
        with_servers(observation, run),
        searched=search_of_filesystems(observation, run, run_on) if only is None else {},
    )


@contextmanager
def _timed(part: str) -> Iterator[None]:
    """Say to who wants to know (-v) what takes how long."""
    began = time.monotonic()
    yield
    _LOG.info("%s: %.1f s", part, time.monotonic() - began)


def _clocks(offsets: Mapping[str, float], tried: PairFindings | None) -> Mapping[str, float]:
    """By the answers, or closer by the trials, whose questions are answered within milliseconds."""
    return {**offsets, **(tried.clock_offsets_s if tried else {})}


def observation_of(
    spec: GridSpec, answers: Mapping[str, CommandOutput | None], before: float, after: float
) -> Observation:
    """Sort answers into facts and silence; a clock that is right lies between `before` and `after`."""
    facts: dict[str, NodeFacts] = {}
    silent: dict[str, str] = {}
    for node, answer in answers.items():
        if answer is None:
            silent[node] = "no answer in time"
            continue
        try:
            facts[node] = _of_machine(spec, node, decode(answer.stdout, NodeFacts))
        except MessageError as error:
            wrong = f"exit status {answer.status} and no facts ({error})"
            silent[node] = why_no_ssh(answer.stderr.decode(errors="replace"))[:_MOST_SAID] or wrong
    offsets = {node: _outside(fact.time, before, after) for node, fact in facts.items()}
    return Observation(spec, facts, silent, offsets)


def _of_machine(spec: GridSpec, node: str, facts: NodeFacts) -> NodeFacts:
    """What counts of a machine beside the nodes: it has no disks of nodes, and maybe none of the mounts."""
    group = next(
        (machine for name, machine in spec.machines.items() if node in machine.machine_names(name)), None
    )
    if group is None:
        return facts
    mounted = {
        name for name, filesystem in spec.filesystems.items() if group.mounts and not filesystem.is_node_local
    }
    there = {str(name) for name, library in spec.libraries.items() if library.filesystem in mounted}
    libraries = {name: library for name, library in facts.libraries.items() if name in there}
    health = {name: each for name, each in facts.health.items() if name in mounted}
    return replace(facts, libraries=libraries, health=health)


def _outside(moment: float, before: float, after: float) -> float:
    return min(moment - before, 0.0) + max(moment - after, 0.0)


TUNING_DRIFT = "tuning-drift"


def faults(results: Sequence[CheckResult], silence: Collection[str] = ()) -> list[CheckResult]:
    """What is wrong and not silenced, for a proof: settings that drifted are one line of it."""
    settings = {check.name for check in tuning_topic().checks}
    wrong = [result for result in results if counts(result) and result.level != "info"]
    drifted = [each for each in wrong if each.name in settings and each.level != "error"]
    drift = [] if TUNING_DRIFT in silence else _drift(drifted)
    return [each for each in wrong if each not in drifted] + drift


def _drift(drifted: Sequence[CheckResult]) -> list[CheckResult]:
    if not drifted:
        return []
    names = list(dict.fromkeys(result.name for result in drifted))
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    return [
        CheckResult(
            name=TUNING_DRIFT,
            level="warning",
            nodes=tuple(dict.fromkeys(node for result in drifted for node in result.nodes)),
            found=f"{len(names)} settings differ from the tuning table: {shown}",
            expected="nodes as gridwright setup leaves them",
            reason="What is measured here is the grid as it is, not as it could be.",
            source="gridwright help doctor",
            remedy="see each with its reason: gridwright doctor; set them: gridwright setup",
            ok=False,
        )
    ]
