"""Which targets of Lustre a client on this machine reaches, by the state of its imports."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from gridwright.node_programs.scratch.commands import Ended, run

_LIMIT_S = 20.0
_ASK = ("lctl", "get_param", "osc.*.import", "mdc.*.import")
_FIELD = re.compile(r"^    (target|state): (\S+)$", re.MULTILINE)
_WELL = frozenset({"FULL", "IDLE"})
"""Connected, and connected on the next use: a client lets go of a target that it does not use (Lustre
Operations Manual, osc.*.idle_timeout)."""


def unserved(targets: Collection[str], runner: Callable[[Sequence[str], float], Ended] = run) -> str:
    """The targets that are not served, in words; empty where a client has all of them."""
    desired = {each for each in targets if each != "MGS"}
    if not desired:
        return ""
    asked = runner(_ASK, _LIMIT_S)
    states = states_of(asked.output)
    bad = {name: state for name, state in states.items() if name in desired and state not in _WELL}
    if bad:
        return "targets are not served: " + ", ".join(f"{name} is {bad[name]}" for name in sorted(bad))
    missing = sorted(desired - states.keys())
    if missing:
        why = "" if asked.well else f" ({asked})"
        return (
            f"this machine is no client of {', '.join(missing)}, so that nobody tells whether they serve{why}"
        )
    return ""


def states_of(text: str) -> dict[str, str]:
    """State of the import of each target, as lctl prints them; of two clients the worse one."""
    found: dict[str, str] = {}
    target = ""
    for name, value in _FIELD.findall(text):
        if name == "target":
            target = value.removesuffix("_UUID")
        elif target and found.get(target) in (None, *_WELL):
            found[target] = value
    return found
