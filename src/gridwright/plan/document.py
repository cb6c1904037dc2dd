"""A plan as the document that `--json` prints. Its keys are a contract."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gridwright.model.document import prediction_document
from gridwright.plan.design import Design, DesignExplanation, Plan
from gridwright.plan.grid_spec import spec_document
from gridwright.units import HOURS_PER_MONTH


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
