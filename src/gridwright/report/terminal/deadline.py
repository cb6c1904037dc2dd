"""A plan for a deadline on the terminal: designs by cost, when their nights end, and what determines that."""

from __future__ import annotations

from rich.console import Console

from gridwright.plan.deadline import DeadlinePlan, NightDesign
from gridwright.report.designs.words import dollars
from gridwright.report.figures import count, duration, plain
from gridwright.report.table import columns_of, rows_table
from gridwright.report.terminal.frame import lined, printed, say
from gridwright.units import counted

CAUSES = 2
"""Causes that are named for each job of the critical path."""


@printed
def deadline_text(console: Console, plan: DeadlinePlan) -> None:
    """Print a plan for a deadline."""
    say(console, f"{plan.grid}: {_outcome(plan)}", "bold" if plan.best else "bold red")
    searched = f"{count(plan.considered)} candidates, {counted(plan.simulated, 'simulation')}"
    say(console, f"{plan.night}, {counted(plan.jobs, 'job')}; {searched} in {plain(plan.seconds)} s", "dim")
    if plan.designs:
        _print_nights(console, plan)
    if plan.saved_usd_per_hour is not None:
        say(console, f"one more hour would save {dollars(plan.saved_usd_per_hour)} USD per hour")
    shown = plan.best or plan.fastest
    if shown is not None:
        _print_path(console, shown)


def _outcome(plan: DeadlinePlan) -> str:
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
