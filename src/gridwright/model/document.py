"""A prediction as the document that `--json` prints. Its keys are a contract."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gridwright.filesystems.resources import OPERATIONS
from gridwright.model.costs import purchases, useful_cost
from gridwright.model.prediction import Bound, LibraryPrediction, Prediction, Rates, Together, margin_of
from gridwright.units import HOURS_PER_MONTH

if TYPE_CHECKING:
    from gridwright.model.grid import GridModel
    from gridwright.model.workload import WorkloadMatrix
    from gridwright.model.workload_figures import WorkloadPrediction


def prediction_document(prediction: Prediction) -> dict[str, Any]:
    """The prediction in plain values: bytes per second, USD per hour, seconds."""
    hourly = prediction.usd_per_hour
    return {
        "grid": prediction.grid,
        "nodes": prediction.nodes,
        "cores": prediction.cores,
        "streams_per_node": prediction.streams_per_node,
        "groups": [asdict(group) for group in prediction.groups],
        "libraries": [_library(library) for library in prediction.libraries],
        "layouts": layouts_document(prediction),
        "together": _together(prediction.together) if prediction.together else None,
        "services": [asdict(service) for service in prediction.services],
        "cost_usd_per_hour": hourly,
        "cost_usd_per_month": None if hourly is None else hourly * HOURS_PER_MONTH,
        "costs": [{"what": cost.what, "usd_per_hour": cost.usd_per_hour} for cost in prediction.costs],
        "purchases": [asdict(purchase) for purchase in purchases(prediction.costs)],
        "findings": [asdict(finding) for finding in prediction.findings],
        "met": prediction.met,
        "answer": prediction.answer,
    }


def layouts_document(prediction: Prediction) -> dict[str, Any]:
    """The layout of each library that has one: its parts, the reason, and rates in bytes per second."""
    return {
        name: {
            "components": [
                {
                    "start": component.start,
                    "end": component.end,
                    "stripe_count": component.stripe_count,
                    "stripe_bytes": component.stripe_bytes,
                    "pool": component.pool,
                    "on_metadata_server": component.on_metadata_server,
                }
                for component in layout.choice.layout.components
            ],
            "reason": layout.choice.reason,
            "stated": layout.choice.stated,
            "streams": layout.streams,
            "targets": layout.targets,
            "placed": [asdict(rates) for rates in layout.placed],
            "at_once": asdict(layout.at_once) if layout.at_once else None,
            "uneven_space": asdict(layout.uneven) if layout.uneven else None,
        }
        for name, layout in prediction.layouts.items()
    }


def _library(library: LibraryPrediction) -> dict[str, Any]:
    return {
        "library": library.library,
        "filesystem": library.filesystem,
        "requires_bytes_per_s_per_core": library.requires_bytes_per_s_per_core,
        "met": library.met,
        "answer": library.answer,
        **{operation: _rates(library.rates[operation]) for operation in OPERATIONS},
        "groups": [
            {"group": name, **{operation: _rates(group[operation]) for operation in OPERATIONS}}
            for name, group in library.groups.items()
        ],
    }


def _rates(rates: Rates) -> dict[str, Any]:
    burst = rates.burst
    return {
        "bytes_per_s": rates.bytes_per_s,
        "bytes_per_s_per_node": rates.bytes_per_s_per_node,
        "bytes_per_s_per_core": rates.bytes_per_s_per_core,
        "low_bytes_per_s_per_core": rates.per_core(rates.low_bytes_per_s),
        "high_bytes_per_s_per_core": _finite(rates.per_core(rates.high_bytes_per_s)),
        "margin": asdict(rates.bound_by.margin),
        "wider_because": [
            {"resource": bound.resource, "doubts": list(bound.doubts), "source": bound.source}
            for bound in rates.doubted
        ],
        "bound_by": rates.bound_by.resource,
        "next_bound": _next(rates),
        "chain": [asdict(bound) for bound in rates.chain],
        "burst": burst
        and {
            "bytes_per_s": burst.bytes_per_s,
            "seconds": burst.seconds,
            "bound_by": burst.bound_by.resource,
        },
    }


def _finite(value: float) -> float | None:
    """JSON knows no infinity: where a floor is all that is known, there is no upper end."""
    return value if math.isfinite(value) else None


def _next(rates: Rates) -> dict[str, Any] | None:
    """The next bottleneck and how far away it is, as a part of today's rate."""
    bound: Bound | None = rates.next_bound
    if bound is None:
        return None
    return {
        "resource": bound.resource,
        "bytes_per_s": bound.bytes_per_s,
        "above": bound.bytes_per_s / rates.bytes_per_s - 1,
    }


def _together(together: Together) -> dict[str, Any]:
    return {
        "required_share": together.required_share,
        "required_share_source": together.required_share_source,
        "met": together.met,
        "answer": together.answer,
        **{
            operation: {
                "share": together.share[operation],
                "low": together.low.get(operation),
                "high": together.high.get(operation),
                "bound_by": bound.resource if (bound := together.bound_by[operation]) else None,
            }
            for operation in OPERATIONS
        },
    }


def workload_document(
    model: GridModel, matrix: WorkloadMatrix, prediction: WorkloadPrediction
) -> dict[str, Any]:
    """The prediction in plain values: seconds, bytes per second."""
    return {
        "grid": model.name,
        "workload": matrix.name,
        "nodes": model.nodes,
        "cores": model.cores,
        "launches": len(prediction.launches),
        "real_s": prediction.real_s,
        "cpu_s": prediction.cpu_s,
        "elapsed_s": prediction.elapsed_s,
        "cpu_real_ratio_mean": prediction.ratio_mean,
        "cpu_real_ratio_stdev": prediction.ratio_stdev,
        "cpu_real_ratio_min": prediction.ratio_min,
        "cpu_real_ratio_max": prediction.ratio_max,
        "cpu_real_ratio_of_sums": prediction.ratio_of_sums,
        "cpu_real_ratio_margin": asdict(margin_of("workload")),
        "mean_concurrency": prediction.mean_concurrency,
        "bound_by": prediction.bound_by,
        "shares": dict(prediction.shares),
        "cost": asdict(useful_cost(model, prediction)),
        "resources": {name or "none": share for name, share in prediction.resources.items()},
        "utilisation": dict(prediction.utilisation),
        "tests": [asdict(test) for test in prediction.tests],
        "throughput": {
            "bin_s": prediction.bin_s,
            "bytes_per_s": {name: list(rates) for name, rates in prediction.rates.items()},
        },
        "assumptions": list(prediction.assumptions),
        "findings": [asdict(finding) for finding in prediction.findings],
    }
