"""A predicted run of the mixed workload on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from gridwright.model.costs import UsefulCost
from gridwright.model.prediction import margin_of
from gridwright.model.workload_figures import WorkloadPrediction
from gridwright.report.figures import count, duration, plain
from gridwright.report.papers.words import percent
from gridwright.report.terminal.frame import framed, print_findings, printed, say, spelled
from gridwright.report.workload.tables import bound_name, predicted_tests, ratio
from gridwright.runs.records import finding_records
from gridwright.units import format_rate

_LEVELS = " ▁▂▃▄▅▆▇█"
_ASCII_LEVELS = " .:-=+*#%"
_WIDEST = 60
_LEAST_SHARE = 0.005
_TESTS = {
    "Test": "test",
    "Class": "class",
    "Bound by": "bound by",
    "Launches": "launches",
    "Real s": "real s",
    "CPU s": "CPU s",
    "Ratio": "CPU/real",
}


@printed
def workload_prediction_text(
    console: Console, grid: str, matrix: str, prediction: WorkloadPrediction, cost: UsefulCost | None = None
) -> None:
    """Print the tests, the workload in all, what binds, the throughput over time, and what was assumed."""
    say(console, f"{grid}: {matrix} predicted, {count(len(prediction.launches))} launches")
    if cost is not None and cost.usd_per_hour is not None:
        say(console, _cost_text(cost), "bold")
    table = predicted_tests(prediction.tests, bound_name)
    console.print(framed(table.only(_TESTS, "Tests (means over launches)")))
    _print_in_all(console, prediction)
    say(console, _margin_text())
    _print_causes(console, prediction)
    _print_throughput(console, prediction)
    say(console, "Assumed:")
    for line in prediction.assumptions:
        say(console, line, indent=2)
    print_findings(console, finding_records(prediction.findings))


def _cost_text(cost: UsefulCost) -> str:
    """The headline of what work costs."""
    useful, run = cost.usd_per_useful_core_hour, cost.usd_per_cpu_hour
    text = f"{cost.usd_per_hour:,.2f} USD/h"
    if useful is not None:
        text += (
            f"; {useful:.4f} USD per useful core-hour ({cost.usd_per_core_hour:.4f} per core-hour / CPU/real)"
        )
    return text if run is None else f"{text}; {run:.4f} USD per hour of CPU time of this run"


def _margin_text() -> str:
    margin = margin_of("workload")
    return (
        f"Margin of error of CPU/real: {percent(margin.p90)}, not exceeded on nine in ten of "
        f"{count(margin.count)} published figures"
    )


def _print_in_all(console: Console, prediction: WorkloadPrediction) -> None:
    say(
        console,
        f"In all: {duration(prediction.elapsed_s)} from the first start to the last end; "
        f"{prediction.real_s / 60:,.1f} min of real time and {prediction.cpu_s / 60:,.1f} min of CPU over "
        f"all launches; {plain(prediction.mean_concurrency)} at once on average",
    )
    say(
        console,
        f"CPU/real ratio: {ratio(prediction.ratio_mean)} (mean of the launches, "
        f"{ratio(prediction.ratio_min)} to {ratio(prediction.ratio_max)}), "
        f"{ratio(prediction.ratio_of_sums)} (of the sums)",
    )


def _print_causes(console: Console, prediction: WorkloadPrediction) -> None:
    causes = sorted(prediction.shares.items(), key=lambda each: -each[1])
    words = [f"{name} {share:.0%}" for name, share in causes if share >= _LEAST_SHARE]
    say(console, f"What took the real time: {', '.join(words)}")
    busy = sorted(prediction.utilisation.items(), key=lambda each: -each[1])
    words = [f"{name} {share:.0%}" for name, share in busy if share >= _LEAST_SHARE]
    if words:
        say(console, f"How busy on average: {', '.join(words)}")


def _print_throughput(console: Console, prediction: WorkloadPrediction) -> None:
    moved = {name: rates for name, rates in prediction.rates.items() if name != "cpu" and any(rates)}
    if not moved:
        return
    longest = max(len(rates) for rates in moved.values())
    say(
        console,
        f"Throughput over {duration(prediction.bin_s * longest)}, the height of each line is its peak:",
    )
    width = max(len(name) for name in moved)
    for name, rates in moved.items():
        line = _line(rates, min(_WIDEST, max(10, console.width - width - 18)), _levels(console))
        say(console, f"{name:<{width}} {line} {format_rate(max(rates))}", indent=2)


def _levels(console: Console) -> str:
    return _LEVELS if spelled(console, _LEVELS) == _LEVELS else _ASCII_LEVELS


def _line(rates: Sequence[float], width: int, levels: str) -> str:
    """The rates as a line of blocks, each the mean of its part of the time, against the peak."""
    width = min(width, len(rates))
    peak = max(rates)
    parts = [
        rates[len(rates) * place // width : max(len(rates) * (place + 1) // width, 1)]
        for place in range(width)
    ]
    means = [sum(part) / len(part) if part else 0.0 for part in parts]
    return "".join(levels[round(mean / peak * (len(levels) - 1))] for mean in means)
