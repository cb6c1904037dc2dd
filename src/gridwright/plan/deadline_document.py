"""A plan for a deadline as the document that `--json` prints. Its keys are a contract."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gridwright.plan.deadline import DeadlinePlan, NightDesign
from gridwright.plan.grid_spec import spec_document


def deadline_document(plan: DeadlinePlan) -> dict[str, Any]:
    """The plan in plain values: seconds and USD."""
    return {
        "grid": plan.grid,
        "jobs": {"name": plan.night, "launches": plan.jobs},
        "finish_within_s": plan.finish_within_s,
        "considered": plan.considered,
        "simulated": plan.simulated,
        "search_seconds": plan.seconds,
        "designs": [_design(rank, design) for rank, design in enumerate(plan.designs, start=1)],
        "best": _design(plan.designs.index(plan.best) + 1, plan.best) if plan.best else None,
        "one_more_hour_saves_usd_per_hour": plan.saved_usd_per_hour,
        "missed_by_s": plan.missed_by_s,
        "met": plan.best is not None,
    }


def _design(rank: int, design: NightDesign) -> dict[str, Any]:
    return {
        "rank": rank,
        "title": design.title,
        "cost_usd_per_hour": design.usd_per_hour,
        "cost_usd_per_night": design.usd_per_night,
        "finish_s": design.finish_s,
        "checked_finish_s": design.checked_s,
        "steady_finish_s": design.least_s,
        "meets": design.meets,
        "front": design.front,
        "critical_path": [asdict(each) for each in design.path],
        "spec": spec_document(design.spec),
    }
