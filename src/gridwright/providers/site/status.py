"""How a site's grid stands: its nodes and the rules of its scheduler, and the tables of these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from gridwright.report.figures import duration
from gridwright.report.terminal.frame import framed_table, text_of
from gridwright.schedulers import kind_of
from gridwright.schedulers.head_node import HeadNode
from gridwright.schedulers.job import NodeState
from gridwright.schedulers.policies import SchedulerPolicies
from gridwright.spec.hosts import fold_hosts
from gridwright.spec.model import GridSpec


@dataclass(frozen=True, slots=True)
class SiteStatus:
    """A grid of a site's own."""

    grid: str
    head: str
    nodes: Sequence[NodeState]
    missing: Sequence[str]
    """Nodes of the spec that the scheduler does not know."""
    policies: SchedulerPolicies | None
    state: str = "up"

    @property
    def whole(self) -> bool:
        """Whether its scheduler knows and uses every node, and its accounting answers."""
        told = self.policies is None or self.policies.accounting_silent is None
        return told and not self.missing and all(node.up or node.asleep for node in self.nodes)

    def document(self) -> dict[str, Any]:
        """See Result."""
        return {
            "grid": self.grid,
            "state": self.state,
            "whole": self.whole,
            "head": self.head,
            "nodes": [asdict(node) for node in self.nodes],
            "missing": list(self.missing),
            "policies": None if self.policies is None else asdict(self.policies),
        }

    def text(self) -> str:
        """Nodes that are alike in one line, then queues, classes of service and accounts."""
        lines = [f"grid {self.grid}: {len(self.nodes)} nodes, head node {self.head}"]
        lines.append(text_of(*_tables(self)).rstrip("\n"))
        if self.missing:
            lines.append(f"not known to the scheduler: {fold_hosts(self.missing)}")
        if self.policies is not None and self.policies.accounting_silent is not None:
            lines.append(f"accounts and limits are not known: {self.policies.accounting_silent}")
        elif self.policies is not None and (self.policies.qos or self.policies.accounts):
            kept = ", ".join(self.policies.enforced)
            lines.append(f"jobs are held to: {kept}" if kept else "jobs are held to none of these limits")
        return "\n".join(lines)


def site_status(spec: GridSpec, head: HeadNode) -> SiteStatus:
    """Ask the scheduler. Raises GridwrightError (ENVIRONMENT) where it does not answer."""
    if not spec.scheduler.has_queue:
        names = [name for group, each in spec.nodes.items() for name in each.node_names(group)]
        unknown = [_unasked(name) for name in names]
        return SiteStatus(spec.name, head.name, unknown, (), None)
    kind = kind_of(spec.scheduler)
    found = kind.nodes(spec, head)
    if not spec.names_hosts:
        return SiteStatus(spec.name, head.name, found, (), kind.policies(spec, head))
    desired = {name for group, each in spec.nodes.items() for name in each.node_names(group)}
    own = [node for node in found if node.name in desired]
    missing = sorted(desired - {node.name for node in found})
    return SiteStatus(spec.name, head.name, own, missing, kind.policies(spec, head))


def _unasked(name: str) -> NodeState:
    """A node that no scheduler tells of."""
    return NodeState(
        name=name, up=True, state="not asked", cores=0, memory_bytes=0, free_cores=0, free_memory_bytes=0
    )


def _tables(status: SiteStatus) -> Iterator[Table]:
    nodes = framed_table("Nodes", ["nodes", "state"], ["cores", "memory", "free cores"])
    alike: dict[tuple[str, int, int], list[NodeState]] = {}
    for node in status.nodes:
        alike.setdefault((node.standing, node.cores, node.memory_bytes), []).append(node)
    for (standing, cores, memory), group in alike.items():
        free = sum(node.free_cores for node in group)
        names = fold_hosts(node.name for node in group)
        nodes.add_row(names, standing, str(cores), f"{memory / 2**30:.0f} GiB", str(free))
    yield nodes
    if status.policies is not None:
        yield from _rules(status.policies)


def _rules(policies: SchedulerPolicies) -> Iterator[Table]:
    title = f"Queues of {policies.cluster or 'the site'} ({policies.scheduler})"
    queues = framed_table(title, ["queue", "nodes", "for", "QOS", "limits"], ["cores", "longest", "priority"])
    for each in policies.queues:
        name = f"{each.name} (default)" if each.default else each.name
        queues.add_row(
            name if each.open else f"{name}, closed",
            each.nodes,
            each.accounts or "all",
            each.qos or "",
            _in_words(each.limits),
            str(each.cores),
            "no limit" if each.longest_s is None else duration(each.longest_s),
            "" if each.priority is None else str(each.priority),
        )
    yield queues
    if policies.qos:
        table = framed_table("Classes of service", ["QOS", "limits", "preempts"], ["priority"])
        for qos in policies.qos:
            table.add_row(qos.name, _in_words(qos.limits), qos.preempts or "", str(qos.priority))
        yield table
    if policies.accounts:
        table = framed_table(
            "Accounts", ["account", "of", "users", "QOS", "limits"], ["share", "used", "level"]
        )
        for account in policies.accounts:
            own = [f"{user}: {_in_words(limits)}" for user, limits in account.user_limits.items()]
            table.add_row(
                account.name,
                account.parent or "",
                ", ".join(account.users),
                ", ".join(account.qos),
                "; ".join([*([_in_words(account.limits)] if account.limits else []), *own]),
                account.share or "",
                "" if account.usage is None else f"{account.usage:.0%}",
                "" if account.fair_share is None else f"{account.fair_share:.2f}",
            )
        yield table


def _in_words(limits: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in limits.items())
