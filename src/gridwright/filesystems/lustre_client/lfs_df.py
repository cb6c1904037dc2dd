"""Free space of OSTs as `lfs df` prints it, which needs no root."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gridwright.errors import environment_error, input_error
from gridwright.filesystems.allocation import TargetSpace
from gridwright.filesystems.health import Run
from gridwright.filesystems.lustre_client.space import FLAGS

LIMIT_S = 10.0
"""`lfs df` waits for a target that is gone; those that are up answer within milliseconds."""
_KIB = 1024
_ROW = re.compile(
    r"(?P<name>\S+)_UUID\s+(?P<total>\d+)\s+\d+\s+(?P<available>\d+)\s+\S+\s+(?P<mounted>.+)"
    r"\[OST:\d+\]\s*(?P<flags>\S*)\s*",
    re.ASCII,
)
_AWAY = re.compile(r"(?P<name>OST[0-9a-f]+)\s*: (?P<why>.+)", re.ASCII)


def parse_lfs_df(text: str) -> dict[str, tuple[TargetSpace, ...]]:
    """Every OST by the mount point of its file system; one that is named as away takes no new files.

    Without `-h` and `-i`: lines in other units are passed over.
    """
    found: dict[str, tuple[TargetSpace, ...]] = {}
    for block in re.split(r"^UUID\b", text, flags=re.MULTILINE)[1:]:
        if block.split(maxsplit=1)[:1] != ["1K-blocks"]:
            continue
        rows: list[TargetSpace] = []
        mounted = ""
        for line in block.splitlines()[1:]:
            if row := _ROW.fullmatch(line):
                mounted = row["mounted"]
                rows.append(
                    TargetSpace(
                        row["name"],
                        int(row["available"]) * _KIB,
                        int(row["total"]) * _KIB,
                        takes_files=not set(row["flags"]) & set(FLAGS),
                    )
                )
            elif away := _AWAY.fullmatch(line):
                rows.append(TargetSpace(away["name"], 0, 0, takes_files=False))
        if mounted:
            found[mounted] = tuple(rows)
    return found


def parse_target_space(text: str, where: str) -> Mapping[str, tuple[TargetSpace, ...]]:
    """The same of a file. Raises GridwrightError (status INPUT) where it names no OST."""
    found = parse_lfs_df(text)
    if not found:
        raise input_error(
            "it has no free space of OSTs",
            where=where,
            remedy="save what `lfs df PATH` prints, without -h and -i, of a node that has it mounted",
        )
    return found


def target_space(run: Run, mount_point: str) -> tuple[TargetSpace, ...]:
    """The OSTs of the Lustre at a mount point, now.

    Raises GridwrightError (status ENVIRONMENT) where it is not mounted there or does not answer in time.
    """
    answer = run(["lfs", "df", mount_point], timeout_s=LIMIT_S)
    found = parse_lfs_df(answer.stdout.decode(errors="replace"))
    if answer.status != 0 or not found:
        said = answer.stderr.decode(errors="replace").strip().splitlines()
        raise environment_error(
            f"lfs df tells no free space of {mount_point}: {said[-1][:200] if said else 'it names no OST'}",
            where=mount_point,
            remedy="see whether it is mounted, and gridwright doctor for targets that are away",
        )
    return next(iter(found.values()))
