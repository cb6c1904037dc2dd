"""Notifications: all changes of a round in one message, and the messages that wait to be sent; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gridwright.errors import GRAVEST_FIRST, Level
from gridwright.messages import Extensible, plain
from gridwright.watch.damping import Changed, KnownFinding

MOST_ROWS = 100
"""Rows of a notice; nodes with the same change are one row, and further changes are counted."""
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class FindingReason(Extensible):
    """Why a finding matters, and what mends it."""

    reason: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class NotificationRow(Extensible):
    """A change, or a finding that is open, of one or more nodes; times in seconds since 1970."""

    change: str
    """As Step has it, or `open`."""
    name: str
    level: Level
    nodes: str
    """Folded, such as compute[1-4]; empty for what is of no node."""
    count: int
    """Findings that this row stands for."""
    target: str
    since_s: float
    found: str
    expected: str = ""
    reason: str = ""
    remedy: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Notification(Extensible):
    """One message, the same in all tries to send it."""

    id: str
    at_s: float
    """When the last of its changes happened, in seconds since 1970."""
    grid: str
    sender: str
    """The machine that watches."""
    changes: list[NotificationRow]
    beyond: int = 0
    """Changes beyond those."""
    open: list[NotificationRow] = field(default_factory=list)
    """All that is open after these changes, so that who missed a notice is right again."""
    open_count: int = 0
    attempts: int = 0
    """How often it was begun to be sent."""

    def document(self) -> dict[str, Any]:
        """What receivers get, which does not differ from try to try."""
        content = {name: value for name, value in plain(self).items() if name != "attempts"}
        return {"schema": SCHEMA, "command": "watch", **content}


def notice_of(
    id_: str,
    grid: str,
    sender: str,
    changes: Sequence[Changed],
    known: Iterable[KnownFinding],
    explained: Mapping[str, FindingReason],
    at_s: float,
) -> Notification:
    """A notice of the changes of a round; `explained` has reason and remedy of findings by their names."""
    rows = folded(((change.step, change.finding, change.why) for change in changes), explained)
    still = [finding for finding in known if finding.is_open and finding.is_told]
    there = folded((("flapping" if finding.is_flapping else "open", finding, "") for finding in still), {})
    return Notification(
        id_,
        at_s,
        grid,
        sender,
        rows[:MOST_ROWS],
        sum(row.count for row in rows[MOST_ROWS:]),
        there[:MOST_ROWS],
        len(still),
    )


def folded(
    changes: Iterable[tuple[str, KnownFinding, str]], explained: Mapping[str, FindingReason]
) -> list[NotificationRow]:
    """A row for each change of each finding, with all nodes that have it; the gravest first."""
    from gridwright.spec.hosts import fold_hosts

    groups: dict[tuple[str, str, str, str], list[tuple[KnownFinding, str]]] = {}
    for step, finding, why in changes:
        groups.setdefault((step, finding.key.name, finding.key.target, why), []).append((finding, why))
    rows = []
    for (step, name, target, why), members in groups.items():
        first = members[0][0]
        texts = list(dict.fromkeys(each.found for each, _ in members))
        more = f"; and {len(texts) - 1} more" if len(texts) > 1 else ""
        explanation = explained.get(name, FindingReason())
        rows.append(
            NotificationRow(
                step,
                name,
                first.level,
                fold_hosts(dict.fromkeys(node for each, _ in members for node in each.key.nodes)),
                len(members),
                target,
                min(each.since_s for each, _ in members),
                texts[0] + more,
                first.expected,
                explanation.reason,
                explanation.remedy,
                why,
            )
        )
    return sorted(rows, key=lambda row: (GRAVEST_FIRST[row.level], row.since_s, row.name))


def put(waiting: Sequence[Notification], notice: Notification) -> list[Notification]:
    """The notices that wait, with another one: one that nobody has seen yet takes it in.

    So that at most two wait: one that was begun to be sent, and all that happened since.
    """
    if not waiting or waiting[-1].attempts:
        return [*waiting, notice]
    last = waiting[-1]
    rows = [*last.changes, *notice.changes]
    over = sum(row.count for row in rows[MOST_ROWS:])
    merged = replace(
        last,
        at_s=notice.at_s,
        changes=rows[:MOST_ROWS],
        beyond=last.beyond + notice.beyond + over,
        open=notice.open,
        open_count=notice.open_count,
    )
    return [*waiting[:-1], merged]


def subject(notice: Notification) -> str:
    """A line that says what changed, of plain printable characters."""
    counts: dict[str, int] = {}
    for row in notice.changes:
        counts[row.change] = counts.get(row.change, 0) + row.count
    parts = [f"{count} {step}" for step, count in counts.items()]
    parts += [f"{notice.beyond} more"] if notice.beyond else []
    only = f": {notice.changes[0].name}" if len(notice.changes) == 1 else ""
    text = f"[gridwright {notice.grid}] {', '.join(parts)}{only} ({notice.open_count} open)"
    return "".join(each for each in text if each.isprintable())


def letter(notice: Notification) -> str:
    """A notice as text for people."""
    lines = [f"Grid {notice.grid}, as {notice.sender} sees it at {clock(notice.at_s)}:", ""]
    for row in notice.changes:
        lines += [f"{row.change} {row.level} {row.name}: {place(row)}{row.found}"]
        lines += [f"  since {clock(row.since_s)}{f'; {row.why}' if row.why else ''}"]
        if row.change != "closed":
            lines += [f"  {word}: {text}" for word, text in _texts(row) if text]
        lines += [""]
    if notice.beyond:
        lines += [f"and {notice.beyond} more changes", ""]
    if notice.open:
        lines += [f"Open now ({notice.open_count}):"]
        lines += [
            f"  {row.level} {row.name}: {place(row)}since {clock(row.since_s)}"
            + (", flapping" if row.change == "flapping" else "")
            for row in notice.open
        ]
    else:
        lines += ["Nothing is open."]
    return "\n".join(lines) + "\n"


def _texts(row: NotificationRow) -> list[tuple[str, str]]:
    return [("expected", row.expected), ("why", row.reason), ("mend", row.remedy)]


def place(row: NotificationRow) -> str:
    """Where a finding is, with a colon behind it; nothing where that is nowhere in particular."""
    where = " ".join(each for each in (row.nodes, row.target) if each)
    return f"{where}: " if where else ""


def clock(seconds: float) -> str:
    """A time in seconds since 1970 as people write it, in UTC."""
    import time

    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
