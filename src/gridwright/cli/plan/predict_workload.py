"""What `gridwright predict --workload` does: the mixed workload on a grid, before it is there."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from gridwright.errors import ExitStatus, input_error

if TYPE_CHECKING:
    from gridwright.cli.plan.predict_run import PredictFlags
    from gridwright.model.grid import GridModel
    from gridwright.model.workload import WorkloadMatrix
    from gridwright.model.workload_figures import WorkloadPrediction

EVERY_NODE = frozenset({"mixed-20"})
"""Matrices whose streams run on every node: 003.wl.concurrent counts 20 streams on each."""
PAPER = "paper"


def predict_workload(model: GridModel, flags: PredictFlags) -> ExitStatus:
    """Simulate the workload and print what it comes to. Raises GridwrightError."""
    from gridwright.model.workload import Replay, default_profiles, simulate_workload
    from gridwright.runs.profiles import load_profiles
    from gridwright.workload.scales import NAMES

    if flags.scale is not None and flags.scale not in NAMES:
        raise input_error(
            f"no scale is named {flags.scale!r}", where="--scale", remedy=f"use {', '.join(NAMES)}"
        )
    profiles = load_profiles(flags.profile) if flags.profile else default_profiles()
    # One's own profiles are replayed as they were recorded; those that come along, at the papers' size.
    scale = flags.scale or (None if flags.profile else PAPER)
    same_size = scale is None or scale == profiles.scale
    replay = Replay(scale=scale, page_cache="profile" if same_size else "none")
    matrix = workload_matrix(flags.workload or "", flags.streams)
    where = str(flags.profile) if flags.profile else "the profiles that come with gridwright"
    prediction = simulate_workload(model, matrix, profiles, replay, where=where)
    if flags.json:
        document = workload_document(model, matrix, prediction)
        typer.echo(json.dumps({"schema": 1, "command": "predict", **document}, indent=2))
    else:
        from gridwright.report.terminal.workload_prediction import print_workload_prediction

        print_workload_prediction(model.name, matrix.name, prediction)
    return ExitStatus.DONE


def workload_matrix(name: str, streams: int | None = None) -> WorkloadMatrix:
    """A matrix of the workload as the model takes it. Raises GridwrightError for one that does not exist."""
    from gridwright.model.workload import WorkloadMatrix
    from gridwright.workload.matrix import load_matrix

    matrix = load_matrix(name, "--workload")
    if streams is not None:
        matrix = matrix.with_streams(streams)
    labels = tuple(tuple(entry.label for entry in stream) for stream in matrix.streams)
    return WorkloadMatrix(matrix.name, labels, every_node=matrix.name in EVERY_NODE)


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
        "mean_concurrency": prediction.mean_concurrency,
        "bound_by": prediction.bound_by,
        "shares": dict(prediction.shares),
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
