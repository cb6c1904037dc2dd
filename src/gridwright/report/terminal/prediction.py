"""A prediction on the terminal: the rate of each library, what limits it, the costs, and how else to buy."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from gridwright.filesystems.resources import Operation
from gridwright.model.costs import Purchase, purchases
from gridwright.model.prediction import Answer, Bound, LibraryPrediction, Prediction, Rates, Together, reaches
from gridwright.report.designs.tables import purchases_table, rates_table, service_table
from gridwright.report.designs.words import (
    alike_layouts,
    burst_text,
    cost_text,
    dollars,
    doubts,
    groups,
    layout_text,
    margin_texts,
    per_core,
    placed_texts,
    service_notes,
    size_text,
    streams_text,
)
from gridwright.report.figures import ABSENT, listed, megabytes, required, share
from gridwright.report.table import Column, columns_of, rows_table
from gridwright.report.terminal.frame import WIDE, lined, print_findings, printed, say, spelled
from gridwright.runs.records import finding_records

_BAR = 32
"""Columns of a bar of the chart of limits."""
_SHORT_BAR = 20
"""And where there are few."""
_AT_MOST = 4.0
"""A limit further above what is required than this many times is cut at the end of its bar."""
_NAMES: dict[str, str | Column] = {"Library": Column("library", words=True), "Operation": "op"}
_RATES: dict[str, str | Column] = {
    "Required per core": "required",
    "Per core": "per core",
    "Per node": "per node",
    "In all": "in all",
    "Met": Column("met"),
}
_BOUNDS: dict[str, str | Column] = {
    "Bound by": "bound by",
    "Next, above the rate": "next (above the rate)",
}
_ANSWERS: dict[Answer, str] = {"yes": "met", "within the margin": "within the margin", "no": "missed"}
STYLES: dict[Answer | None, str] = {
    "yes": "bold green",
    "within the margin": "bold yellow",
    "no": "bold red",
    None: "",
}


@printed
def prediction_text(console: Console, prediction: Prediction, explain: bool = False) -> None:
    """Print a prediction; with `explain` every limit of every library, with its source."""
    say(
        console,
        f"{prediction.grid}: {size_text(prediction)}; {cost_text(prediction.usd_per_hour)}",
        "bold",
    )
    _print_rates(console, prediction)
    _print_margins(console, prediction)
    _print_bursts(console, prediction)
    _print_services(console, prediction)
    if prediction.together is not None:
        _print_together(console, prediction.together)
    if explain:
        _print_chains(console, prediction)
        _print_layouts(console, prediction)
        _print_bill(console, prediction)
        print_purchases(console, purchases(prediction.costs))
    print_findings(console, finding_records(prediction.findings))
    _print_verdict(console, prediction)


def _print_verdict(console: Console, prediction: Prediction) -> None:
    words: dict[Answer | None, str] = {
        "yes": "requirements met",
        "within the margin": "within the margin of error, neither met nor missed",
        "no": "requirements missed",
        None: "nothing is required of this grid",
    }
    say(console, f"predicted: {words[prediction.answer]}", STYLES[prediction.answer])
    for doubt in doubts(prediction) if prediction.answer == "within the margin" else []:
        say(console, doubt, indent=2)


def _print_rates(console: Console, prediction: Prediction) -> None:
    say(console, f"MB/s that last, each library alone, {streams_text(prediction)}", "bold")
    table = rates_table(prediction)
    whole, figures, bounds = (
        lined(console, table.only(_NAMES | columns)) for columns in (_RATES | _BOUNDS, _RATES, _BOUNDS)
    )
    for shown in [whole] if whole.fits(console, console.width) else [figures, bounds]:
        console.print(shown)


def _print_margins(console: Console, prediction: Prediction) -> None:
    say(console, "Margin of error, by what binds:", "bold")
    for text in margin_texts(prediction):
        say(console, text, indent=2)


def _rows(prediction: Prediction) -> list[tuple[LibraryPrediction, str, Rates]]:
    return [
        (library, operation, rates)
        for library in prediction.libraries
        for operation, rates in library.rates.items()
    ]


def _print_bursts(console: Console, prediction: Prediction) -> None:
    alike: dict[str, list[str]] = {}
    for library, operation, rates in _rows(prediction):
        if burst := rates.burst:
            each = megabytes(burst.bytes_per_s / prediction.cores)
            text = (
                f"{each} per core, {megabytes(burst.bytes_per_s)} in all, {burst_text(burst)}; "
                f"meanwhile bound by {burst.bound_by.resource}"
            )
            alike.setdefault(text, []).append(f"{library.library} {operation}")
    if alike:
        say(console, "Bursts in MB/s (requirements are judged by sustained rates):", "bold")
    for text, names in alike.items():
        say(console, f"{listed(names)}: {text}", indent=2)


def _print_services(console: Console, prediction: Prediction) -> None:
    for service in prediction.services:
        table = service_table(service)
        say(console, table.caption, "bold")
        console.print(lined(console, table))
        for note in service_notes(service):
            say(console, note, indent=2)


def _print_together(console: Console, together: Together) -> None:
    gets = listed([f"{operation}s {share(part)}" for operation, part in together.share.items()])
    binds = listed([*dict.fromkeys(bound.resource for bound in together.bound_by.values() if bound)])
    word = _ANSWERS[together.answer]
    say(
        console,
        f"All libraries at once: {gets} of what they require; "
        f"{together.required_share * 100:.3g} % must be there: {word}. Bound by {binds or 'nothing'}.",
        "" if together.answer == "yes" else STYLES[together.answer],
    )
    say(console, f"peak factor from {together.required_share_source}", "dim", indent=2)


def _print_chains(console: Console, prediction: Prediction) -> None:
    for names, library in groups(prediction.libraries):
        required = library.requires_bytes_per_s_per_core
        for operation, rates in library.rates.items():
            console.print()
            say(console, f"{names}, {operation}: {_judged(library, operation)}", "bold")
            unit = required * prediction.cores if required else rates.bytes_per_s
            widths = (
                max(len(bound.resource) for bound in rates.chain),
                max(len(megabytes(bound.bytes_per_s)) for bound in rates.chain),
            )
            for place, bound in enumerate(rates.chain):
                _print_bound(console, bound, widths, unit, ("binds", "next", "")[min(place, 2)])
    say(
        console,
        f"In each bar, {spelled(console, '│')} is what is required, or what binds where nothing is; "
        f"{spelled(console, '▶')} is a limit beyond {_AT_MOST:g} times that.",
        "dim",
    )
    console.print()


def _judged(library: LibraryPrediction, operation: Operation) -> str:
    answer = library.answer_of(operation)
    got = f"{per_core(library, library.rates[operation])} MB/s per core"
    if answer is None:
        return f"{got}, nothing required"
    wanted = required(library.requires_bytes_per_s_per_core)
    of_groups = " by every group of nodes" if library.groups else ""
    return f"{got}, {wanted} required{of_groups}: {_ANSWERS[answer]}"


def _print_bound(console: Console, bound: Bound, widths: tuple[int, int], unit: float, role: str) -> None:
    part = bound.bytes_per_s / unit if unit > 0 else 0.0
    head = f"{bound.resource:<{widths[0]}} {megabytes(bound.bytes_per_s):>{widths[1]}} MB/s"
    bar = limit_bar(part, _BAR if console.width >= WIDE else _SHORT_BAR)
    style = "bold" if role == "binds" else ""
    line = f"{head}  {bar} {part:>5.2f} x  {role}".rstrip()
    if len(line) + 2 <= console.width:
        say(console, line, style, indent=2)
    else:
        say(console, f"{head}  {part:.2f} x  {role}".rstrip(), style, indent=2)
        say(console, bar, style, indent=4)
    say(console, bound.what, indent=4)
    if bound.floor_part < 1:
        floor = megabytes(bound.bytes_per_s * bound.floor_part)
        say(console, f"in 95 % of placements of files on OSTs {floor} MB/s or more", indent=4)
    if bound.source:
        say(console, f"source: {bound.source}", "dim", indent=4)


def limit_bar(part: float, width: int) -> str:
    """A bar of `width` columns for a limit that is `part` times what is required, which a line marks."""
    line = round(width / _AT_MOST)
    filled = min(round(part * line), width)
    # Rounding may not carry a bar to the line that it does not reach.
    if not reaches(part, 1):
        filled = min(filled, line - 1)
    text = ("█" * max(filled, 1 if part > 0 else 0)).ljust(width)
    text = f"{text[:line]}│{text[line:]}"
    return f"{text[:-1]}▶" if part > _AT_MOST else text


def _print_layouts(console: Console, prediction: Prediction) -> None:
    """Each library's layout with its reason, and what it is worth to streams that use it together."""
    if not prediction.layouts:
        return
    say(console, "Layouts of files", "bold")
    for names, layout in alike_layouts(prediction):
        say(console, f"{names}: {layout_text(layout)}", indent=2)
        for text in placed_texts(layout):
            say(console, text, indent=4)
    console.print()


def _print_bill(console: Console, prediction: Prediction) -> None:
    if not prediction.costs:
        return
    say(console, "The bill", "bold")
    rows = []
    total = prediction.usd_per_hour
    for cost in prediction.costs:
        usd = cost.usd_per_hour
        part = f"{usd / total:.0%}" if usd is not None and total else ABSENT
        rows.append((cost.what, "no price known" if usd is None else dollars(usd), part))
    columns = columns_of(["what"], ["USD per hour", "of all"])
    console.print(lined(console, rows_table("", columns, rows)))


def print_purchases(console: Console, purchases: Sequence[Purchase]) -> None:
    """Print what the grid costs with each way to buy, and what that rests on."""
    if not purchases:
        return
    say(console, "The same grid bought otherwise", "bold")
    table = purchases_table(purchases).only(
        {
            "What": "what",
            "Per hour": "USD per hour",
            "Of on demand": "of on demand",
        }
    )
    console.print(lined(console, table))
    left = sorted({name for each in purchases if each.option != "spot" for name in each.at_list_price})
    if left:
        say(console, f"Counted as on demand, as no factor is known: {listed(left)}", "dim")
    for purchase in purchases:
        if purchase.interrupted:
            say(
                console, f"Spot instances taken away within a month: {listed([*purchase.interrupted])}", "dim"
            )
    say(console, f"Factors: {listed(sorted({each.source for each in purchases}))}", "dim")


def purchase_line(purchases: Sequence[Purchase]) -> str:
    """The same in one line for a design; empty where nothing is known."""
    return ", ".join(f"{purchase.option} {dollars(purchase.usd_per_hour)}" for purchase in purchases)
