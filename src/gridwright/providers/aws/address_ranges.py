"""Where in a subnet the machines of each group have their addresses, so that a group can grow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def first_offsets(counts: Sequence[int], first: int, size: int, least: int) -> Iterator[int]:
    """Offset of the first address of each group in a subnet of `size` addresses.

    Every group has room for a power of two of machines, `least` or more, so that one that grows within it
    moves none behind it. In a subnet that is too small for that, groups stand one behind the other.
    """
    rooms = [max(least, 1 << (count - 1).bit_length()) for count in counts]
    # AWS keeps the last address of a subnet; the last group ends with its last machine.
    fits = first + sum(rooms[:-1]) + sum(counts[-1:]) < size
    offset = first
    for count, room in zip(counts, rooms, strict=True):
        yield offset
        offset += room if fits else count
