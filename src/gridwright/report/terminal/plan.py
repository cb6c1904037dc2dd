"""A plan on the terminal: how requirements were read, ranked designs, and why others are no better.

One for a deadline, too: designs by cost, when their nights end, and what determines that.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from gridwright.model.costs import purchases
from gridwright.plan.deadline import DeadlinePlan, NightDesign
from gridwright.plan.design import Design, DesignExplanation, Plan
from gridwright.report.designs.tables import explanation_table, readings_table
from gridwright.report.designs.words import (
    alike_layouts,
    answer_word,
    binding,
    dollars,
    growth_texts,
    layout_text,
    monthly,
    nodes_text,
    resilience_text,
)
from gridwright.report.figures import ABSENT, count, duration, megabytes, plain
from gridwright.report.table import Column, columns_of, rows_table
from gridwright.report.terminal.frame import lined, printed, say
from gridwright.report.terminal.prediction import purchase_line
from gridwright.units import counted

DESIGNS_SHOWN = 10
"""Designs that are printed where no other number is asked for."""
MARGIN_NOTE = (
    "met: within margin means that the figures reach what is required, by less than predictions were off; "
    "gridwright predict says by how much, of a design that --write has saved"
)
TYPES_NAMED = 5
"""Types without a price that are named; --json has all."""


@printed
def plan_text(console: Console, plan: Plan, limit: int = DESIGNS_SHOWN) -> None:
    """Print a plan with its `limit` cheapest designs, and every one of the Pareto front."""
    say(console, f"{plan.grid}: {_outcome(plan)}", "bold" if plan.designs else "bold red")
    _print_readings(console, plan)
    _print_prices(console, plan)
    for text in plan.impossible:
        say(console, f"impossible: {text}", "red")
    if plan.designs:
        _print_designs(console, plan.designs[:limit])
        if len(plan.designs) > limit:
            more = counted(len(plan.designs) - limit, "more design")
            say(console, f"{more}: ask for them with --json or --html", "dim")
        _print_front(console, plan.designs, limit)
    _print_neighbours(console, plan)
    if plan.explanation is not None:
        _print_explanation(console, plan.explanation)


@printed
def explanation_text(console: Console, explanation: DesignExplanation) -> None:
    """Print one instance type held against every requirement."""
    _print_explanation(console, explanation)


def _outcome(plan: Plan) -> str:
    searched = f"{count(plan.considered)} candidates in {plain(plan.seconds)} s"
    if not plan.designs:
        return f"no design meets the requirements ({searched})"
    first = plan.designs[0]
    cost = f"{dollars(first.usd_per_hour)} USD per hour, {monthly(first.usd_per_hour)} per month"
    meets = "design meets" if len(plan.designs) == 1 else "designs meet"
    return f"{count(len(plan.designs))} {meets} the requirements, from {cost} on ({searched})"


def _print_prices(console: Console, plan: Plan) -> None:
    """From when the prices are, and what was left out for want of one."""
    if plan.basis is not None:
        dated = {"instances": plan.basis.instances, "storage": plan.basis.storage}
        spans = [f"{kind} {' to '.join(dict.fromkeys(dates))}" for kind, dates in dated.items() if dates]
        say(console, f"prices: {', '.join(spans)}")
    if names := plan.without_price:
        some = ", ".join(names[:TYPES_NAMED]) + (" ..." if len(names) > TYPES_NAMED else "")
        what = counted(len(names), "type")
        say(console, f"left out, since no price is known: {what} that could be nodes ({some})")
    for finding in plan.findings:
        say(console, f"{finding.name}: {finding.text}", "yellow" if finding.level == "warning" else "dim")


def _print_readings(console: Console, plan: Plan) -> None:
    if not plan.readings:
        return
    say(console, "Requirements, as they were read", "bold")
    titles = {"What": "what", "Read as": "read as", "Where from": "source"}
    table = readings_table(plan.readings)
    console.print(lined(console, table.only({of: Column(title, words=True) for of, title in titles.items()})))


def _print_designs(console: Console, designs: Sequence[Design]) -> None:
    console.print()
    say(console, "Designs, cheapest first (* on the Pareto front)", "bold")
    figures = ("USD/h", "USD/month", "MB/s per core", "resilience")
    rows = (
        (
            f"{rank}{'*' if design.front else ''}",
            nodes_text(design),
            answer_word(design.prediction.answer),
            *design_figures(design),
            binding(design),
        )
        for rank, design in enumerate(designs, start=1)
    )
    table = rows_table("", columns_of(("#", "nodes", "met"), figures, "binds"), rows)
    whole = lined(console, table)
    is_whole = whole.fits(console, console.width)
    console.print(whole if is_whole else lined(console, table.without("binds")))
    if any(design.prediction.answer == "within the margin" for design in designs):
        say(console, MARGIN_NOTE, "dim")
    for rank, design in enumerate(designs, start=1):
        say(console, f"{rank}. {design.title}")
        if not is_whole:
            say(console, f"binds: {binding(design)}", indent=3)
        for names, layout in alike_layouts(design.prediction):
            say(console, f"layout of {names}: {layout_text(layout)}", indent=3)
        for text in growth_texts(design):
            say(console, text, indent=3)
        if otherwise := purchase_line(purchases(design.prediction.costs)):
            say(console, f"USD/h bought otherwise: {otherwise}", indent=3)


def design_figures(design: Design) -> list[str]:
    """USD per hour and per month, the smallest rate in MB/s per core, and resilience."""
    return [
        dollars(design.usd_per_hour),
        monthly(design.usd_per_hour),
        megabytes(design.bytes_per_s_per_core),
        resilience_text(design),
    ]


def _print_front(console: Console, designs: Sequence[Design], limit: int) -> None:
    front = [(rank, design) for rank, design in enumerate(designs, start=1) if design.front]
    if not front:
        return
    console.print()
    say(
        console,
        "Pareto front: none is at least as cheap, as fast and as resilient, and better in one",
        "bold",
    )
    rows = []
    for rank, design in front:
        hourly, _, rate, resilience = design_figures(design)
        rows.append((str(rank), nodes_text(design), design.survives, hourly, rate, resilience))
    columns = columns_of(["#", "nodes", "survives"], ["USD/h", "MB/s per core", "resilience"])
    console.print(lined(console, rows_table("", columns, rows)))
    for rank, design in front:
        if rank > limit:
            say(console, f"{rank}. {design.title}", indent=2)


def _print_neighbours(console: Console, plan: Plan) -> None:
    if not plan.neighbours:
        return
    console.print()
    why = "how each differs from it" if plan.kept else "why each is no better"
    say(console, f"Neighbours of the cheapest, and {why}", "bold")
    # Reasons are too long for the column of a table.
    for neighbour in plan.neighbours:
        say(console, f"{neighbour.change}: {neighbour.title}, {dollars(neighbour.usd_per_hour)} USD/h")
        say(console, neighbour.why, indent=3)


def _print_explanation(console: Console, explanation: DesignExplanation) -> None:
    console.print()
    say(console, f"{explanation.instance} against each requirement", "bold")
    table = explanation_table(explanation)
    titles = {column.title: Column(column.title.lower(), words=True) for column in table.columns}
    console.print(lined(console, table.only(titles)))
    say(console, explanation.verdict)
    if explanation.cheapest is not None:
        cost = f"{dollars(explanation.cheapest.usd_per_hour)} USD/h"
        say(console, f"the cheapest design with it: {explanation.cheapest.title}, {cost}")
    else:
        say(console, f"the cheapest design with it: {ABSENT}")


CAUSES = 2
"""Causes that are named for each job of the critical path."""


@printed
def deadline_text(console: Console, plan: DeadlinePlan) -> None:
    """Print a plan for a deadline."""
    say(console, f"{plan.grid}: {_deadline_outcome(plan)}", "bold" if plan.best else "bold red")
    searched = f"{count(plan.considered)} candidates, {counted(plan.simulated, 'simulation')}"
    say(console, f"{plan.night}, {counted(plan.jobs, 'job')}; {searched} in {plain(plan.seconds)} s", "dim")
    if plan.designs:
        _print_nights(console, plan)
    if plan.saved_usd_per_hour is not None:
        say(console, f"one more hour would save {dollars(plan.saved_usd_per_hour)} USD per hour")
    shown = plan.best or plan.fastest
    if shown is not None:
        _print_path(console, shown)


def _deadline_outcome(plan: DeadlinePlan) -> str:
    within = duration(plan.finish_within_s)
    if plan.best is not None:
        cost = f"{dollars(plan.best.usd_per_hour)} USD per hour"
        return f"the jobs end within {within} from {cost} on, after {duration(plan.best.finish_s)}"
    if plan.fastest is None or plan.missed_by_s is None:
        return "no design meets the other requirements: leave out jobs to see what binds"
    ends = f"the fastest ends after {duration(plan.fastest.finish_s)}"
    late = f"{duration(plan.missed_by_s)} too late"
    return f"no design ends the jobs within {within}: {ends}, {late}; {plan.fastest.bound_by} binds"


def _print_nights(console: Console, plan: DeadlinePlan) -> None:
    console.print()
    say(console, "Designs in time by cost, then those too late (* no cheaper one ends as early)", "bold")
    columns = columns_of(["#", "in time"], ["USD/h", "USD/night", "ends after", "steady rates alone"])
    rows = (
        (
            f"{rank}{'*' if each.front else ''}",
            "yes" if each.meets else "no",
            dollars(each.usd_per_hour),
            dollars(each.usd_per_night),
            duration(each.finish_s),
            duration(each.least_s),
        )
        for rank, each in enumerate(plan.designs, start=1)
    )
    console.print(lined(console, rows_table("", columns, rows)))
    for rank, each in enumerate(plan.designs, start=1):
        say(console, f"{rank}. {each.title}")


def _print_path(console: Console, design: NightDesign) -> None:
    console.print()
    say(console, f"Critical path of {design.title}", "bold")
    rows = []
    for each in design.path:
        causes = [f"{cause} {duration(seconds)}" for cause, seconds in list(each.waits.items())[:CAUSES]]
        name = each.test if each.count == 1 else f"{each.test} ({each.count} times)"
        rows.append((name, ", ".join(causes), duration(each.start_s), duration(each.end_s)))
    columns = columns_of(["job", "waits for"], ["begins", "ends"])
    console.print(lined(console, rows_table("", columns, rows)))
