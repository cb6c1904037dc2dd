"""`gridwright predict --day`: whether burst credits last through a day's load, every day."""

from __future__ import annotations

from dataclasses import asdict

from gridwright.cli.output import LazyResult, Output
from gridwright.errors import ExitStatus
from gridwright.model.day import load_day
from gridwright.model.day import predict_day as walk_day
from gridwright.model.grid import GridModel


def predict_day(model: GridModel, curve: str, streams: int | None, output: Output) -> ExitStatus:
    """Print when a grid serves this load and when not; exit status 1 where it does not all day.

    Raises GridwrightError.
    """
    found = walk_day(model, load_day(curve), streams)

    def text() -> str:
        from gridwright.report.terminal.day import day_text

        return day_text(found)

    output.show(LazyResult(document=lambda: asdict(found), text=text))
    return ExitStatus.DONE if found.holds else ExitStatus.MISSED
