"""Predictions on the terminal: of libraries, a workload and a day, without dead parts, and of the papers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console

from gridwright.filesystems.resources import Operation
from gridwright.model.costs import Purchase, UsefulCost, purchases
from gridwright.model.day import CreditsOfDay, DayCurve, DayPrediction, LibraryDay
from gridwright.model.degraded import DegradedGrid, DegradedLibrary
from gridwright.model.papers import PAPERS, PaperRow, PapersCheck
from gridwright.model.prediction import (
    Answer,
    Bound,
    LibraryPrediction,
    Prediction,
    Rates,
    Together,
    margin_of,
    reaches,
)
from gridwright.model.sensitivity import InputEffect, NextBottleneck, Sensitivity
from gridwright.model.workload_figures import WorkloadPrediction
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
from gridwright.report.figures import ABSENT, count, duration, listed, megabytes, plain, required, share
from gridwright.report.figures import required as required_rate
from gridwright.report.papers import (
    by_reason,
    figures_table,
    margins_table,
    percent,
    reach_text,
    summary_table,
)
from gridwright.report.table import Cell, Column, columns_of, rows_table
from gridwright.report.terminal.frame import WIDE, framed, lined, print_findings, printed, say, spelled
from gridwright.report.workload.tables import bound_name, predicted_tests, ratio
from gridwright.runs.records import finding_records
from gridwright.units import format_rate

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


_HOLDS = {True: "yes", False: "no", None: ABSENT}
_VERDICTS = {True: "all requirements hold", False: "requirements do not hold", None: "nothing is required"}
_HOLDS_STYLES = {True: "green", False: "bold red", None: ""}


@printed
def without_text(
    console: Console, grid: str, left: DegradedGrid | None, each: Sequence[DegradedGrid]
) -> None:
    """Print what is left without some parts, if any are named, and the table of one of each dead."""
    if left is not None:
        nodes = f"{left.nodes} node{'s'[: left.nodes != 1]} of {left.cores} cores in all"
        say(console, f"{grid} without {listed([*left.without])}: {nodes}", "bold")
        _print_table(console, [left], names=False)
        _print_why(console, [left])
        say(console, f"predicted: {_VERDICTS[left.holds]}", _HOLDS_STYLES[left.holds])
        console.print()
    say(console, f"{grid}: one of each dead", "bold")
    _print_table(console, each, names=True)
    _print_why(console, each)


def _print_table(console: Console, rows: Sequence[DegradedGrid], *, names: bool) -> None:
    words = (["without"] if names else []) + ["library", "its files"]
    figures = ["required", "write", "read", "of before", "holds"]
    cells = (
        (
            *((listed([*row.without]) if place == 0 else "",) if names else ()),
            library.library,
            _files(library),
            required_rate(library.requires_bytes_per_s_per_core),
            *(megabytes(rate.bytes_per_s_per_core) for rate in library.rates.values()),
            _least_part(library),
            Cell(_HOLDS[library.holds], style=_HOLDS_STYLES[library.holds]),
        )
        for row in rows
        for place, library in enumerate(row.libraries)
    )
    say(console, "MB/s of each core that is left, each library alone", "dim")
    console.print(lined(console, rows_table("", columns_of(words, figures), cells)))


def _files(library: DegradedLibrary) -> str:
    return "kept" if library.files == "kept" else f"{share(library.files_part)} {library.files}"


def _least_part(library: DegradedLibrary) -> str:
    parts = [rate.part for rate in library.rates.values() if rate.part is not None]
    return share(min(parts)) if parts else ABSENT


def _print_why(console: Console, rows: Sequence[DegradedGrid]) -> None:
    for row in rows:
        why = "; ".join(row.why)
        say(console, f"{listed([*row.without])}: {_VERDICTS[row.holds]}{f'. {why}' if why else ''}", indent=2)


@printed
def sensitivity_text(console: Console, found: Sensitivity) -> None:
    """Print what each input moves, the strongest first, and where the next bottlenecks start."""
    headroom = "" if found.headroom is None else f"; headroom {found.headroom:.2f}"
    say(console, f"{found.grid}: each input changed by {found.change * 100:.3g} %{headroom}", "bold")
    if found.headroom is not None:
        text = "Headroom is the least ratio of what is predicted to what is required; below 1 it is missed."
        say(console, text, "dim")
    figures = ("value", "less", "more", "elasticity", "headroom less", "more")
    columns = columns_of(("input", "moves most"), figures)
    console.print(lined(console, rows_table("", columns, map(_input_row, found.inputs))))
    say(console, "Next bottlenecks: by which factor what binds may grow before another limit binds", "bold")
    for words, names in _alike(found.next_bottlenecks).items():
        say(console, f"{listed(names)}: {words}", indent=2)


def _input_row(effect: InputEffect) -> list[str]:
    value = f"{megabytes(effect.value)} MB/s" if effect.unit == "bytes/s" else f"{effect.value:g}"
    headrooms = [
        ABSENT if figure is None else f"{figure:.2f}"
        for figure in (effect.headroom_less, effect.headroom_more)
    ]
    strongest = max(effect.effects, key=lambda effect: max(abs(effect.less), abs(effect.more)), default=None)
    if strongest is None or not effect.strongest:
        return [effect.input, "no library alone", value, "0 %", "0 %", "0", *headrooms]
    steeper = max(strongest.elasticity_less, strongest.elasticity_more, key=abs)
    return [
        effect.input,
        f"{strongest.library} {strongest.operation}",
        value,
        f"{strongest.less:+.1%}",
        f"{strongest.more:+.1%}",
        f"{steeper:+.2f}",
        *headrooms,
    ]


def _alike(bottlenecks: Sequence[NextBottleneck]) -> dict[str, list[str]]:
    """What is bound alike, under one line."""
    found: dict[str, list[str]] = {}
    for bottleneck in bottlenecks:
        name = bottleneck.library or "all at once"
        if bottleneck.factor is None:
            words = f"{bottleneck.bound_by} binds, and nothing else would"
        else:
            after = f"{bottleneck.next} binds" if bottleneck.next else "all that is required is served"
            words = f"{bottleneck.bound_by} binds; from {plain(bottleneck.factor)} times as much, {after}"
        found.setdefault(words, []).append(f"{name} {bottleneck.operation}")
    return found


_FIGURES: dict[str, str | Column] = {
    "figure": Column("figure", words=True, wrap="fold"),
    "unit": "unit",
    "predicted": "predicted",
    "published": "published",
    "error": "error",
    "": "",
}


@printed
def papers_text(console: Console, check: PapersCheck) -> None:
    """Print predicted beside published, paper by paper; figures that do not count are only in --json."""
    for paper, title in PAPERS.items():
        rows = [row for row in check.of("check") if row.paper == paper and row.error is not None]
        if rows:
            console.print(framed(figures_table(rows).only(_FIGURES, f"{paper}: {title}")))
    _print_reasons(console, "missed, with the likely reason", check.missed)
    without = [row for row in check.of("check") if row.predicted is None]
    _print_reasons(console, "not predicted", without)
    console.print(framed(summary_table(check).without("")))
    console.print(reach_text(check), markup=False)
    console.print(framed(margins_table(check)))
    hidden = len(check.of("context"))
    console.print(f"{hidden} more figures do not count, and --json lists them with the reason", markup=False)


def _print_reasons(console: Console, title: str, rows: Iterable[PaperRow]) -> None:
    for reason, figures in by_reason(rows).items():
        console.print(f"{title}: {'; '.join(figures)}", markup=False)
        console.print(f"  {reason}", style="dim", markup=False)
