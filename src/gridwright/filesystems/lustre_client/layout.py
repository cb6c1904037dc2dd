"""Layouts of Lustre files and directories: their bytes lie on these targets, as `lfs getstripe` prints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gridwright.errors import environment_error
from gridwright.filesystems.health import Run
from gridwright.filesystems.layout import Component, FileLayout

LIMIT_S = 10.0
"""For `lfs getstripe` of one path, which asks the metadata server only."""
_NO_DEVICE = 25
"""ENOTTY, which lfs ends with where a path is on no Lustre."""


def read_layout(run: Run, path: str) -> FileLayout:
    """The layout of a file, or of a directory itself.

    Raises GridwrightError (status ENVIRONMENT) where the path is not there, is on no Lustre, or the metadata
    server does not answer in time.
    """
    # One path a command: --yaml prints neither names nor separators. -d: the directory itself, not its files.
    answer = run(["lfs", "getstripe", "-d", "--yaml", path], timeout_s=LIMIT_S)
    layout = parse_layout(answer.stdout.decode(errors="replace"))
    if answer.status == 0 and layout is not None:
        return layout
    said = answer.stderr.decode(errors="replace").strip().splitlines()
    reason = said[-1][:200] if said else f"lfs getstripe ended with {answer.status} and told no layout"
    if answer.status == _NO_DEVICE:
        raise environment_error(f"{path} is on no Lustre", where=path, remedy="mount the file system there")
    raise environment_error(
        f"the layout of {path} is not told: {reason}", where=path, remedy="see gridwright doctor"
    )


def parse_layout(text: str) -> FileLayout | None:
    """What `lfs getstripe` printed of one path, as text or with --yaml, of Lustre 2.10 or later.

    The fields have the same names in all of these forms, so they are read by name and in their order. None
    where there is no layout in it.
    """
    components: list[Component] = []
    fields: dict[str, str] = {}
    osts: list[int] = []
    for name, value in _fields(text):
        if name == "ost":
            osts.append(int(value))
            continue
        if name == "lcme_id" or (name == "stripe_count" and name in fields):
            components += _component(fields, osts)
            fields, osts = {}, []
        fields[name] = value
    components += _component(fields, osts)
    if not components:
        return None
    plain = len(components) == 1 and "lcme_id" not in fields
    return FileLayout(tuple(components), is_default=plain and fields.get("pattern") == "0")


_KNOWN = frozenset(
    {
        "lcme_id",
        "lcme_mirror_id",
        "lcme_flags",
        "lcme_extent.e_start",
        "lcme_extent.e_end",
        "stripe_count",
        "stripe_size",
        "pattern",
        "pool",
    }
)


def _fields(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        if row := re.match(r"\s+(\d{1,5})\s+\d+\s+0x[0-9a-f]+\s+\S+\s*$", line):
            # The table of objects of a plain layout: obdidx, objid, objid, group.
            yield "ost", row[1]
            continue
        for name, value in re.findall(r"([A-Za-z_][\w.]*):\s+([^\s{]+)", line):
            if name == "l_ost_idx" and (index := re.match(r"\d{1,5}", value)):
                yield "ost", index[0]
            elif (short := name.removeprefix("lmm_")) in _KNOWN:
                yield short, value


def _component(fields: dict[str, str], osts: Iterable[int]) -> list[Component]:
    count = _whole(fields.get("stripe_count", ""))
    if count is None:
        return []
    pattern = fields.get("pattern", "").split(",")
    return [
        Component(
            start=_whole(fields.get("lcme_extent.e_start", "")) or 0,
            end=_whole(fields.get("lcme_extent.e_end", "")),
            stripe_count=count,
            stripe_bytes=_whole(fields.get("stripe_size", "")) or None,
            pool=fields.get("pool") or None,
            on_metadata_server="mdt" in pattern,
            overstriped="overstriped" in pattern,
            mirror=_whole(fields.get("lcme_mirror_id", "")) or 0,
            flags=tuple(flag for flag in fields.get("lcme_flags", "").split(",") if flag not in ("", "0")),
            osts=tuple(osts),
        )
    ]


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch("-?[0-9]{1,20}", text, re.ASCII) else None
