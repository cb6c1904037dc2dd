"""A day's load on the terminal: when it is served, and how far burst credits fall."""

from __future__ import annotations

from rich.console import Console

from gridwright.model.day import CreditsOfDay, DayCurve, DayPrediction, LibraryDay
from gridwright.report.figures import ABSENT, duration, listed, plain, share
from gridwright.report.table import Cell, columns_of, rows_table
from gridwright.report.terminal.frame import lined, printed, say


@printed
def day_text(console: Console, found: DayPrediction) -> None:
    """Print the load, a line for each library and direction, and what the credits rest on."""
    say(console, f"{found.grid}: a day of {found.curve.name}, again and again", "bold")
    say(console, f"Busy cores: {_steps(found.curve)}; {share(found.curve.mean)} on average", "dim")
    figures = ("short for", "from", "gets at least", "credits at least", "holds")
    rows = (
        (
            _name(walk, found),
            walk.operation,
            walk.bound_by or ABSENT,
            duration(walk.short_s) if walk.short_s else ABSENT,
            clock_of(walk.first_short_s),
            share(walk.least),
            _lowest(walk),
            Cell("yes", "met") if walk.holds else Cell("no", "missed"),
        )
        for walk in found.walks
    )
    console.print(lined(console, rows_table("", columns_of(("library", "", "binds"), figures), rows)))
    for line in _credit_lines(found):
        say(console, line, indent=2)
    answer = "the load is served all day" if found.holds else "the load is not served all day"
    say(console, f"predicted: {answer}", "green" if found.holds else "bold red")


def clock_of(seconds: float | None) -> str:
    """A time of day, such as 09:30."""
    if seconds is None:
        return ABSENT
    minutes = int(seconds // 60)
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _name(day: LibraryDay, prediction: DayPrediction) -> str:
    if day.library is not None:
        return day.library
    return f"all at once, {plain(100 * (prediction.share_at_once or 0))} % of each"


def _steps(curve: DayCurve) -> str:
    return ", ".join(f"{share(step.busy)} from {clock_of(step.start_s)}" for step in curve.steps)


def _lowest(day: LibraryDay) -> str:
    return share(min(credit.lowest for credit in day.credits)) if day.credits else ABSENT


def _credit_lines(prediction: DayPrediction) -> list[str]:
    """What happens to the credits that are touched at all, and which bursts do not count."""
    lines: dict[str, list[str]] = {}
    for walk in prediction.walks:
        name = f"{walk.library or 'all at once'} {walk.operation}"
        for credit in walk.credits:
            if credit.lowest < 1:
                lines.setdefault(_credit_words(credit), []).append(name)
        if not walk.settled:
            lines.setdefault("credits still fall a little from day to day after years", []).append(name)
    credit_lines = [f"{listed(names)}: {words}" for words, names in lines.items()]
    unpublished = sorted({name for day in prediction.walks for name in day.unpublished})
    if unpublished:
        credit_lines.append(
            f"No fact says how long a burst of {listed(unpublished)} lasts: only the steady rates count there"
        )
    return credit_lines


def _credit_words(credit: CreditsOfDay) -> str:
    size = f"{credit.full_bytes / 1e9:,.4g} GB"
    words = f"credits of {credit.resource} ({size}) fall to {share(credit.lowest)}"
    if credit.first_empty_s is not None:
        words += f", are spent at {clock_of(credit.first_empty_s)}, for {duration(credit.empty_s)} a day"
    return words
