"""Filters about layouts of Lustre directories; they need nothing but Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

NO_ENTRY, NO_DEVICE = "No such file or directory", "Inappropriate ioctl for device"
"""What `lfs getstripe` ends with where there is no such path, and where it is on no Lustre."""
_FIELD = re.compile(r"([A-Za-z_][\w.]*):[ \t]+(\S+)")


def components(told: str) -> list[dict[str, str]]:
    """The components that `lfs getstripe -d --yaml` printed, each with its fields by their names."""
    found: list[dict[str, str]] = []
    fields: dict[str, str] = {}
    for name, value in _FIELD.findall(str(told)):
        if name == "lcme_id" and "stripe_count" in fields:
            found.append(fields)
            fields = {}
        fields[name.removeprefix("lmm_")] = value
    return [*found, fields] if "stripe_count" in fields else found


def is_so(told: str, wanted: Iterable[Mapping[str, Any]]) -> bool:
    """Whether new files in the directory are laid out as is wanted."""
    found, wanted = components(told), list(wanted)
    return len(found) == len(wanted) and all(map(_is_so, found, wanted))


def _is_so(found: Mapping[str, str], wanted: Mapping[str, Any]) -> bool:
    if found.get("lcme_extent.e_end", "EOF") != str(wanted.get("end", "EOF")):
        return False
    patterns = set(found.get("pattern", "").split(","))
    if "mdt" in patterns or wanted["pattern"] == "mdt":
        return "mdt" in patterns and wanted["pattern"] == "mdt"
    return (
        found["stripe_count"] == str(wanted["stripe_count"])
        and ("overstriped" in patterns) == ("overstriped" in str(wanted["pattern"]))
        and found.get("pool", "") == str(wanted.get("pool", ""))
        and str(wanted.get("stripe_size", found.get("stripe_size"))) == found.get("stripe_size")
    )


def described(told: str) -> str:
    """The layout in the fields that `lfs getstripe` has, on one line."""
    parts = []
    for each in components(told):
        end = each.get("lcme_extent.e_end", "EOF")
        pool = f" of pool {each['pool']}" if "pool" in each else ""
        on_mdt = "mdt" in each.get("pattern", "").split(",")
        count = "the metadata server" if on_mdt else f"stripe_count {each['stripe_count']}{pool}"
        parts.append(count + (f" until {end}" if end != "EOF" else ""))
    return ", then ".join(parts)


def layout_step(row: Mapping[str, Any], own: Mapping[str, Any], whole: Mapping[str, Any]) -> dict[str, str]:
    """What is to be done about the layout of a library's directory.

    `own` and `whole` are what `lfs getstripe` of the directory and of the mount point ended with. `do` is
    nothing, make, set, keep (another one was set by somebody, and the spec states none), or tell (`why` says
    what hinders). A directory without a layout of its own tells that of the mount point.
    """
    step = {"found": "", "wanted": str(row["layout"]), "why": ""}
    errors = str(own.get("stderr", ""))
    if own.get("rc") == 0 and components(str(own.get("stdout", ""))):
        told = str(own["stdout"])
        step["found"] = described(told)
        if is_so(told, row["components"]):
            return {**step, "do": "nothing"}
        inherited = components(told)[0].get("pattern") == "0" or components(told) == components(
            str(whole.get("stdout", ""))
        )
        return {**step, "do": "set" if inherited or row["stated"] else "keep"}
    if NO_ENTRY in errors and whole.get("rc") == 0:
        return {**step, "found": "not there", "do": "make"}
    if NO_DEVICE in errors or NO_ENTRY in errors:
        return {**step, "do": "tell", "why": f"{row['mount']} is not mounted"}
    reason = errors.strip().splitlines()[-1:] or [f"lfs getstripe ended with {own.get('rc')}"]
    return {**step, "do": "tell", "why": reason[0]}


class FilterModule:
    """What Ansible looks for in this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Filters by the name that templates call them."""
        return {"gridwright_layout_step": layout_step}
