"""How much wider the band of a prediction is where it rests on a figure that its source marks as doubtful.

What the papers show (`margins`) is how far the model is off with figures that providers list. How far a
figure is off that nobody lists is another matter: where the catalogue has two sources that differ, they do so
by up to a factor of two on nine in ten types (network-elsewhere.csv, July 2026; no paper has a part in it).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

from gridwright.catalog import load_catalog
from gridwright.catalog.facts import Doubt
from gridwright.catalog.instances import disagreement_factor, networks_elsewhere
from gridwright.model.margins import Margin


@cache
def doubt_factor() -> float:
    """By which factor a figure that is not verified may be too high or too low."""
    instances = load_catalog().instances
    return disagreement_factor(
        {name: instances[name].network.baseline_bytes_per_s for name in networks_elsewhere()}
    )


def lowest(bytes_per_s: float, margin: Margin, doubts: Sequence[Doubt]) -> float:
    """The least that a limit may be. A floor is no reason to expect less than it says."""
    low = margin.low(bytes_per_s)
    return low / doubt_factor() if "not verified" in doubts else low


def highest(bytes_per_s: float, margin: Margin, doubts: Sequence[Doubt]) -> float:
    """The most that a limit may be: of a floor nobody says how much more it is."""
    if "floor" in doubts:
        return math.inf
    high = margin.high(bytes_per_s)
    return high * doubt_factor() if "not verified" in doubts else high
