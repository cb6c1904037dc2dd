"""On the terminal: the same grid, bought otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from gridwright.model.purchase import Purchase
from gridwright.report.designs.words import PURCHASE_WORDS, dollars
from gridwright.report.figures import listed
from gridwright.report.terminal.spelling import cell, lined_table, say


def print_purchases(console: Console, purchases: Sequence[Purchase]) -> None:
    """Print what the grid costs with each way to buy, and what that rests on."""
    if not purchases:
        return
    say(console, "The same grid bought otherwise", "bold")
    table = lined_table(console, ["what"], ["USD per hour", "of on demand"])
    for purchase in purchases:
        words = (PURCHASE_WORDS[purchase.option], dollars(purchase.usd_per_hour), f"{purchase.part:.0%}")
        table.add_row(*(cell(console, text) for text in words))
    console.print(table)
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
