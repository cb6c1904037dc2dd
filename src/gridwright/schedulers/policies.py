"""What a scheduler that a site runs lets its users do: queues, accounts, classes of service, limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


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
