"""The protocol of schedulers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
