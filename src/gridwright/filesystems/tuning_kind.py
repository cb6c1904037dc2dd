"""A kind of rows of the tuning table that a kind of file system brings: how nodes tell of such a setting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningKind:
    """Settings that a command prints on nodes, and that a role of the playbook sets.

    The doctor has nodes run `command`, and works `value` out where it runs itself, so that nodes need no more
    than the command. The role finds its rows in `base_rows['NAME']`, holds them against what the node has by
    the filter `gridwright_printed_drift`, and sets what differs.
    """

    name: str
    """What rows call it in `kind`, such as `lustre-client`."""
    words: str
    """What stands before a key in messages and documents, such as `lctl`."""
    command: Callable[[str], Sequence[str]]
    """The command that prints the setting of a key. It changes nothing; a node ends it after two seconds."""
    value: Callable[[str, str], str | None]
    """The value, out of what the command printed and the key; different ones with ", " between them.

    None where the node has no such setting.
    """
    bound: Callable[[str, str], str | None] | None = None
    """How far the setting can go, out of what the command printed and a row's `bounded_by`.

    None where nothing says so.
    """
    role: str
    """The role of the playbook that sets it, of the kind's own or of a provider."""
