"""The protocol of schedulers, and what a scheduler that a site runs lets its users do."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gridwright.schedulers.job import Job, JobExplanation, JobRequest, NodeState


class Scheduler(Protocol):
    """Starts jobs on nodes.

    Failure contract. Every method returns within a bounded time, or raises GridwrightError: status INPUT for
    what the user asked for and can change (an unknown queue, more cores than any node has, an
    unknown job), all problems at once; status ENVIRONMENT where the scheduler does not answer, after bounded
    retries. A method that raised can be called again. A submission that raised ENVIRONMENT may or may
    not have reached the scheduler; the next call of any method finds out, and `jobs` tells. A job that was
    returned by `submit` is never lost and never runs twice at the same time, whoever is killed meanwhile: it
    ends exactly once in a final state.
    """

    def submit(self, requests: Sequence[JobRequest]) -> list[str]:
        """Submit jobs, all or none where the scheduler can; the identifier of each request, in order.

        An array has one identifier, and those of its elements are `ID_INDEX`. A request can wait for an
        earlier one of the same call (`#0` in `after`). What the scheduler cannot do (`option_problems`) is
        refused.
        """

    def jobs(self, identifiers: Collection[str] | None = None) -> list[Job]:
        """How jobs stand, one query for all; elements of arrays singly. None: all that are remembered."""

    def cancel(self, identifiers: Collection[str]) -> None:
        """End jobs, waiting or running; those that have ended stay so. An array: all its elements."""

    def explain(self, identifier: str) -> JobExplanation:
        """Hold what a job needs against what there is."""

    def nodes(self) -> list[NodeState]:
        """All nodes that jobs could run on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePolicy:
    """A queue (a partition of Slurm's). Times in seconds; None is without limit, or not known."""

    name: str
    default: bool
    open: bool
    """Whether its waiting jobs are started."""
    nodes: str
    """Folded, such as c[1-4]."""
    cores: int
    """Of its nodes, physical ones."""
    longest_s: float | None = None
    usual_s: float | None = None
    """What a job gets that names no time."""
    priority: int | None = None
    """Jobs of the queue with the higher one are looked at first."""
    accounts: str | None = None
    """Who may use it; None: everybody."""
    qos: str | None = None
    """The class of service whose limits hold for it."""
    limits: Mapping[str, str] = field(default_factory=dict)
    """More limits in the scheduler's own words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QosPolicy:
    """A class of service that jobs can ask for."""

    name: str
    priority: int
    preempts: str | None
    limits: Mapping[str, str]
    """In the scheduler's own words, such as GrpTRES: cpu=64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountPolicy:
    """An account that jobs are charged to, and its users."""

    name: str
    parent: str | None
    share: str | None
    """Of its parent's share of the cluster, in the scheduler's own word."""
    users: Sequence[str]
    qos: Sequence[str]
    limits: Mapping[str, str]
    """Of the account as a whole."""
    user_limits: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Of those users who have limits of their own."""
    usage: float | None = None
    """Its part of what was used of late, 0 to 1; None where fair share is not kept."""
    fair_share: float | None = None
    """Its share by what it used of it: above 1 it used less than its share. None where that is not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerPolicies:
    """The rules of a scheduler, as it has them now."""

    scheduler: str
    """Its name and release."""
    cluster: str
    queues: Sequence[QueuePolicy]
    qos: Sequence[QosPolicy] = ()
    accounts: Sequence[AccountPolicy] = ()
    enforced: Sequence[str] = ()
    """What of accounts it insists on: associations, limits, qos, safe."""
    accounting_silent: str | None = None
    """Why accounts and classes of service are not known; None where they are, or where it keeps none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingComparison:
    """A setting of a scheduler, held against what is recommended."""

    name: str
    found: str
    recommended: str
    cost: str
    """What the difference costs, as a clause."""
    source: str
    harmful: bool
    """Whether jobs or nodes are lost for it; else cores are idle longer than need be."""
    ok: bool
    remedy: str
