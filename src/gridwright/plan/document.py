"""A plan, and one for a deadline, as the documents that `--json` prints. Their keys are a contract."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gridwright.model.document import prediction_document
from gridwright.plan.deadline import DeadlinePlan, NightDesign
from gridwright.plan.design import Design, DesignExplanation, Plan
from gridwright.plan.grid_spec import spec_document
from gridwright.units import HOURS_PER_MONTH


def deadline_document(plan: DeadlinePlan) -> dict[str, Any]:
    """The plan in plain values: seconds and USD."""
    return {
        "grid": plan.grid,
        "jobs": {"name": plan.night, "launches": plan.jobs},
        "finish_within_s": plan.finish_within_s,
        "considered": plan.considered,
        "simulated": plan.simulated,
        "search_seconds": plan.seconds,
        "designs": [_deadline_design(rank, design) for rank, design in enumerate(plan.designs, start=1)],
        "best": _deadline_design(plan.designs.index(plan.best) + 1, plan.best) if plan.best else None,
        "one_more_hour_saves_usd_per_hour": plan.saved_usd_per_hour,
        "missed_by_s": plan.missed_by_s,
        "met": plan.best is not None,
    }


def _deadline_design(rank: int, design: NightDesign) -> dict[str, Any]:
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


def plan_document(plan: Plan) -> dict[str, Any]:
    """The plan in plain values: bytes per second, USD per hour, seconds."""
    return {
        "grid": plan.grid,
        "region": plan.region or None,
        "prices_of": plan.prices_of or None,
        "readings": [asdict(reading) for reading in plan.readings],
        "considered": plan.considered,
        "search_seconds": plan.seconds,
        "without_price": list(plan.without_price),
        "prices": asdict(plan.basis) if plan.basis else None,
        "findings": [asdict(finding) for finding in plan.findings],
        "designs": [_design(rank, design) for rank, design in enumerate(plan.designs, start=1)],
        "neighbours": [
            {
                "title": neighbour.title,
                "change": neighbour.change,
                "why": neighbour.why,
                "cost_usd_per_hour": neighbour.usd_per_hour,
            }
            for neighbour in plan.neighbours
        ],
        "impossible": list(plan.impossible),
        "kept": list(plan.kept),
        "explanation": _explanation(plan.explanation) if plan.explanation else None,
        "met": bool(plan.designs),
    }


def _design(rank: int, design: Design) -> dict[str, Any]:
    """One design; `spec` is a grid spec that check and predict accept, as YAML or JSON."""
    spec = spec_document(design.spec)
    predicted = prediction_document(design.prediction)
    return {
        "rank": rank,
        "title": design.title,
        "cost_usd_per_hour": design.usd_per_hour,
        "cost_usd_per_month": design.usd_per_hour * HOURS_PER_MONTH,
        "costs": predicted["costs"],
        "nodes": {**next(iter(spec["nodes"].values())), "cores": design.prediction.cores},
        "purchases": predicted["purchases"],
        "filesystems": spec["filesystems"],
        "libraries": {
            each["library"]: {
                "filesystem": each["filesystem"],
                "write_bytes_per_s_per_core": each["write"]["bytes_per_s_per_core"],
                "read_bytes_per_s_per_core": each["read"]["bytes_per_s_per_core"],
                "required": each["requires_bytes_per_s_per_core"],
                "bound_by": min(
                    (each["write"], each["read"]), key=lambda rates: rates["bytes_per_s_per_core"]
                )["bound_by"],
            }
            for each in predicted["libraries"]
        },
        "layouts": predicted["layouts"],
        "together": predicted["together"],
        "bytes_per_s_per_core": design.bytes_per_s_per_core,
        "resilience": design.resilience,
        "survives": design.survives,
        "growth": _growth(design),
        "front": design.front,
        "meets": design.prediction.met is not False,
        "answer": design.prediction.answer,
        "findings": predicted["findings"],
        "spec": spec,
    }


def _growth(design: Design) -> dict[str, Any] | None:
    """What a design costs in 12 months, and how its file systems get there; None where nothing grows."""
    if design.growth is None:
        return None
    return {
        "cost_usd_per_hour_later": design.growth.usd_per_hour_later,
        "cost_usd_per_hour_mean": design.growth.usd_per_hour_mean,
        "filesystems": {
            name: {
                "in_place": filesystem.in_place,
                "because": filesystem.because,
                "later": dict(filesystem.plain),
            }
            for name, filesystem in design.growth.filesystems.items()
        },
    }


def _explanation(explanation: DesignExplanation) -> dict[str, Any]:
    return {
        "instance": explanation.instance,
        "fits": [asdict(fit) for fit in explanation.fits],
        "verdict": explanation.verdict,
        "cheapest": _design(1, explanation.cheapest) if explanation.cheapest else None,
    }
