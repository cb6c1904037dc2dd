"""What is particular to one sort of YAML file: what messages call it, how large it may be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A sort of file that people write.

    `name` is what messages call it, without an article. `levels` says in words how deep it nests.
    `max_bytes` bounds its size, since the YAML parser reads about 250 kB in a second; `max_values` bounds
    its values, with aliases expanded. `beginning` is what to do where the text is no mapping of fields, and
    `instead_of_nothing` where it is empty; None: an empty file is right. `numbers_name`: a whole
    number may be the name of an entry.
    """

    name: str
    levels: str
    beginning: str
    instead_of_nothing: str | None
    max_bytes: int = 256 * 1024
    max_values: int = 10_000
    numbers_name: bool = False
