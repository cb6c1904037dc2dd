"""On the terminal: the same grid, bought otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from gridwright.model.purchase import Purchase
from gridwright.report.designs.tables import purchases_table
from gridwright.report.designs.words import dollars
from gridwright.report.figures import listed
from gridwright.report.table import Column
from gridwright.report.terminal.frame import lined, say


def print_purchases(console: Console, purchases: Sequence[Purchase]) -> None:
    """Print what the grid costs with each way to buy, and what that rests on."""
    if not purchases:
        return
    say(console, "The same grid bought otherwise", "bold")
    table = purchases_table(purchases).only(
        {
            "What": Column("what", words=True),
            "Per hour": Column("USD per hour"),
            "Of on demand": Column("of on demand"),
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
