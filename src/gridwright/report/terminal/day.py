"""A day's load on the terminal: when it is served, and how far burst credits fall."""

from __future__ import annotations

from rich.console import Console

from gridwright.model.day import CreditsOfDay, DayPrediction, LibraryDay
from gridwright.model.day_curve import DayCurve
from gridwright.report.figures import ABSENT, duration, listed, plain, share
from gridwright.report.terminal.frame import printed
from gridwright.report.terminal.spelling import cell, lined_table, say


@printed
def day_text(console: Console, found: DayPrediction) -> None:
    """Print the load, a line for each library and direction, and what the credits rest on."""
    say(console, f"{found.grid}: a day of {found.curve.name}, again and again", "bold")
    say(console, f"Busy cores: {_steps(found.curve)}; {share(found.curve.mean)} on average", "dim")
    table = lined_table(
        console, ["library", "", "binds"], ["short for", "from", "gets at least", "credits at least", "holds"]
    )
    for each in found.walks:
        table.add_row(
            cell(console, _name(each, found)),
            cell(console, each.operation),
            cell(console, each.bound_by or ABSENT),
            cell(console, duration(each.short_s) if each.short_s else ABSENT),
            cell(console, clock_of(each.first_short_s)),
            cell(console, share(each.least)),
            cell(console, _lowest(each)),
            cell(console, "yes" if each.holds else "no", "green" if each.holds else "bold red"),
        )
    console.print(table)
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


def _name(each: LibraryDay, found: DayPrediction) -> str:
    if each.library is not None:
        return each.library
    return f"all at once, {plain(100 * (found.share_at_once or 0))} % of each"


def _steps(curve: DayCurve) -> str:
    return ", ".join(f"{share(each.busy)} from {clock_of(each.start_s)}" for each in curve.steps)


def _lowest(each: LibraryDay) -> str:
    return share(min(credit.lowest for credit in each.credits)) if each.credits else ABSENT


def _credit_lines(found: DayPrediction) -> list[str]:
    """What happens to the credits that are touched at all, and which bursts do not count."""
    lines: dict[str, list[str]] = {}
    for each in found.walks:
        name = f"{each.library or 'all at once'} {each.operation}"
        for credit in each.credits:
            if credit.lowest < 1:
                lines.setdefault(_credit_words(credit), []).append(name)
        if not each.settled:
            lines.setdefault("credits still fall a little from day to day after years", []).append(name)
    said = [f"{listed(names)}: {words}" for words, names in lines.items()]
    unpublished = sorted({name for each in found.walks for name in each.unpublished})
    if unpublished:
        said.append(
            f"No fact says how long a burst of {listed(unpublished)} lasts: only the steady rates count there"
        )
    return said


def _credit_words(credit: CreditsOfDay) -> str:
    size = f"{credit.full_bytes / 1e9:,.4g} GB"
    words = f"credits of {credit.resource} ({size}) fall to {share(credit.lowest)}"
    if credit.first_empty_s is not None:
        words += f", are spent at {clock_of(credit.first_empty_s)}, for {duration(credit.empty_s)} a day"
    return words
