"""`gridwright predict --without` and `--sensitivity`: what if a part dies, or an input changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from gridwright.cli.output import LazyResult, Output
from gridwright.errors import ExitStatus
from gridwright.model.degraded import EACH, degraded_grid, find_failure_domains, single_failures
from gridwright.model.grid import GridModel
from gridwright.model.sensitivity import sensitivity


def predict_without(
    model: GridModel, names: Sequence[str], streams: int | None, output: Output
) -> ExitStatus:
    """Print what is left without the parts of these names, and the table of one of each dead.

    Exit status 1 where the requirements do not hold any more; with `each` alone the table judges nothing.
    Raises GridwrightError.
    """
    parts = find_failure_domains(model, [name for name in names if name != EACH])
    left = degraded_grid(model, parts, streams) if parts else None
    grids = single_failures(model, streams)

    def text() -> str:
        from gridwright.report.terminal.what_if import without_text

        return without_text(model.name, left, grids)

    def document() -> dict[str, object]:
        return {
            "grid": model.name,
            "without": None if left is None else asdict(left),
            "one_of_each_dead": [asdict(row) for row in grids],
        }

    output.show(LazyResult(document=document, text=text))
    return ExitStatus.MISSED if left is not None and left.holds is False else ExitStatus.DONE


def predict_sensitivity(model: GridModel, percent: float, streams: int | None, output: Output) -> ExitStatus:
    """Print what each input moves when it changes by so many percent. Raises GridwrightError."""
    found = sensitivity(model, percent / 100, streams)

    def text() -> str:
        from gridwright.report.terminal.what_if import sensitivity_text

        return sensitivity_text(found)

    output.show(LazyResult(document=lambda: asdict(found), text=text))
    return ExitStatus.DONE
