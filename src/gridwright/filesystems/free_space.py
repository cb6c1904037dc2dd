"""Asks for the free space of a mounted file system, with a limit of time: one that hangs is reported."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gridwright.errors import Finding, GridwrightError
from gridwright.filesystems.health import Run
from gridwright.units import format_bytes

ANSWER_S = 4.0
"""How long a file system may take for its free space before it counts as silent."""
FULL = 0.9
"""Part in use from which most file systems slow down and administrators act."""


@dataclass(frozen=True, slots=True)
class FreeSpace:
    """What statfs(2) tells. Sizes in bytes; no inodes where the file system makes them as it needs them."""

    total_bytes: int
    available_bytes: int
    inodes: int
    inodes_free: int


def read_free_space(run: Run, point: str) -> FreeSpace | str:
    """The free space of what is mounted at `point`, or in words why it is not told."""
    try:
        answer = run(["stat", "-f", "-c", "%S %b %a %c %d", point], timeout_s=ANSWER_S)
    except GridwrightError as error:
        return str(error).splitlines()[0]
    numbers = answer.stdout.split()
    if (
        answer.status == 0
        and len(numbers) == 5
        and all(number.isdigit() and len(number) <= 20 for number in numbers)
    ):
        unit, blocks, available, inodes, free = (int(number) for number in numbers)
        return FreeSpace(unit * blocks, unit * available, inodes, free)
    return answer.stderr.decode(errors="replace").strip()[:200] or f"exit status {answer.status}"


def space_findings(space: FreeSpace) -> Iterator[Finding]:
    """What is wrong with the space: little or none left, of bytes or of inodes."""
    total, available = space.total_bytes, space.available_bytes
    if total and available < (1 - FULL) * total:
        yield Finding(
            "warning" if available else "error",
            "filesystem-full",
            f"{100 - 100 * available / total:.0f} % in use, "
            f"{format_bytes(available)} of {format_bytes(total)} left",
            "Remove what is not needed, or add capacity",
        )
    if space.inodes and space.inodes_free < (1 - FULL) * space.inodes:
        yield Finding(
            "warning",
            "filesystem-inodes",
            f"{space.inodes_free} of {space.inodes} inodes left: no file can be made when they are used up",
            "Remove small files that are not needed",
        )
