"""An explanation in words, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from rich.console import Console

from gridwright.monitor.causes.changes import Beginning, MarkedEvent
from gridwright.monitor.causes.explaining import Sharer, Sharing, SlowExplanation, SlowFileSystem, SlowJob
from gridwright.report.terminal.frame import printed, say
from gridwright.spec.hosts import fold_hosts
from gridwright.units import format_rate

_ROOM = 4
"""Resources with room that are told."""
_STYLES = {"slow": "red", "well": "green"}


@printed
def explanation_text(console: Console, told: SlowExplanation) -> None:
    """Print it: first what is slow, then what is not, in a line each."""
    say(console, f"at {clock(told.at_s)}, over {told.seconds:.0f} s", "dim")
    if told.job is not None:
        _job(console, told.job)
    for filesystem in sorted(told.filesystems, key=lambda each: (each.slow is False, each.slow is None)):
        _filesystem(console, filesystem)
    for sentence in _cpus(told):
        say(console, sentence)
    if told.changes:
        say(console, "what changed before:")
        for mark in told.changes:
            say(console, f"{clock(mark.at_s)}: {_mark(mark)}", indent=4)
    untold = [*told.untold, *(f"{node} is away: {why}" for node, why in told.away.items())]
    if untold:
        say(console, "cannot tell:")
        for reason in untold:
            say(console, reason, indent=4)
    if told.evidence:
        say(console, "evidence:", "dim")
        for line in told.evidence:
            say(console, f"{line.text} [{line.source}]", "dim", indent=4)
    if not told.slow and told.is_complete:
        say(console, "nothing is slow", "green")


def clock(at_s: float) -> str:
    """A time for people."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _mark(mark: MarkedEvent) -> str:
    return f"{mark.text} [{mark.source}]"


def _job(console: Console, job: SlowJob) -> None:
    load = job.load
    moved = (
        f"it reads {_rate(load.read_bytes_per_s)} and writes {_rate(load.written_bytes_per_s)}"
        f" on {fold_hosts(load.nodes)}"
    )
    if load.may_be_more:
        moved += (
            f"; {fold_hosts(load.more_on)} kept the sum of some jobs alone, of which it may be one: "
            f"at most {format_rate(load.more_bytes_per_s)} more"
        )
    say(console, f"job {job.job}: {job.text}; {moved}")


def _filesystem(console: Console, filesystem: SlowFileSystem) -> None:
    row = filesystem.row
    named = ", ".join(row.libraries)
    name = f"{named} on {row.filesystem}" if row.filesystem not in row.libraries else named
    if filesystem.slow is False:
        full = f"; {'; '.join(use.text for use in filesystem.binds)}" if filesystem.binds else ""
        say(console, f"{name}: not slow ({_standing(filesystem)}){full}", _STYLES["well"])
        _foreign(console, filesystem.sharing)
        return
    word = "slow" if filesystem.slow else "cannot tell whether it is slow"
    say(console, f"{name}: {word}", _STYLES["slow"] if filesystem.slow else "yellow")
    for title, text in _lines(filesystem):
        say(console, f"{title}: {text}", indent=2)
    _foreign(console, filesystem.sharing)


def _standing(filesystem: SlowFileSystem) -> str:
    rate = filesystem.delivered_bytes_per_s
    moved = "" if rate is None else f"{format_rate(rate)} moved"
    words = {
        "met": "each busy core has what is required",
        "not-asked": "less is asked for: nobody waits for it",
        "idle": "nobody works with it",
        "not-required": "nobody waits for it",
        "unknown": "nobody works",
    }
    return ", ".join(filter(None, [words.get(str(filesystem.row.standing), ""), moved]))


def _lines(filesystem: SlowFileSystem) -> Iterator[tuple[str, str]]:
    row = filesystem.row
    yield "asked", _required(filesystem)
    delivered, required = filesystem.delivered_bytes_per_s, filesystem.required_bytes_per_s
    if delivered is not None:
        part = f", {delivered / required:.0%} of what is required" if required else ""
        of_core = "" if row.per_core is None else f", {format_rate(row.per_core)} for each busy core"
        yield (
            "delivered",
            f"{_rate(row.read_bytes_per_s)} read and {_rate(row.written_bytes_per_s)} written{of_core}{part}",
        )
    if row.note:
        yield "in these figures", row.note
    if filesystem.binds:
        yield "what binds", "; ".join(use.text for use in filesystem.binds)
    room = [f"{use.name} {use.part:.0%}" for use in filesystem.others if use.part is not None]
    if room:
        yield "used of others", ", ".join(room[:_ROOM])
    if filesystem.sharing.sharers:
        yield "who uses it", _sharers(filesystem.sharing.sharers)
        if len(filesystem.sharing.users) > 1:
            yield "users", ", ".join(f"{user} {share:.0%}" for user, share in filesystem.sharing.users)
    if filesystem.since is not None:
        yield "since", _since(filesystem.since)
    for line in filesystem.untold:
        yield "cannot tell", line


def _required(filesystem: SlowFileSystem) -> str:
    row = filesystem.row
    if row.busy_cores is None:
        return "cannot tell: how many cores are busy is not known"
    waits = "" if row.waiting_cores is None else f"; {row.waiting_cores:.1f} CPUs wait for I/O"
    waits += "" if row.waiting is None else f", tasks in {row.waiting:.0%} of the time"
    if row.required_per_core is None:
        return f"nothing is required of it; {row.busy_cores:.1f} cores are busy{waits}"
    asked = f"{format_rate(row.required_per_core)} for each of {row.busy_cores:.1f} busy cores"
    return f"{asked}, {format_rate(filesystem.required_bytes_per_s or 0.0)} in all{waits}"


def _sharers(sharers: Sequence[Sharer]) -> str:
    return ", ".join(f"{_called(sharer)} {sharer.share or 0.0:.0%}" for sharer in sharers)


def _called(sharer: Sharer) -> str:
    of = f" of {sharer.user}" if sharer.user else ""
    return f"job {sharer.name}{of}" if sharer.is_job else f"process {sharer.name}{of}{_own(sharer.name)}"


def _own(process: str) -> str:
    """A proof is started by ssh or by hand, and is no job."""
    return " (a proof of Gridwright)" if "gridwright.iotest" in process else ""


def _foreign(console: Console, sharing: Sharing) -> None:
    if sharing.is_used_elsewhere:
        text = f"{format_rate(sharing.elsewhere_bytes_per_s or 0.0)}, {sharing.elsewhere_share or 0.0:.0%}"
        line = f"foreign load: clients that are not of the grid have {text} of what its servers move"
        say(console, line, "yellow", indent=2)
    if not sharing.disturbs or sharing.foreign_bytes_per_s is None:
        return
    who = [sharer for sharer in sharing.sharers if not sharer.is_job]
    named = f"most of all {_called(who[0])}" if who else "processes that cannot be seen from the nodes"
    if who and sharing.unseen_bytes_per_s > sharing.foreign_bytes_per_s / 2:
        named = f"processes that cannot be seen from the nodes, or jobs that ended; also {_called(who[0])}"
    text = f"{format_rate(sharing.foreign_bytes_per_s)}, {sharing.foreign_share or 0.0:.0%} of what it moves"
    say(console, f"foreign load: at least {text}, is of no job of the grid: {named}", "yellow", indent=2)


def _since(since: Beginning) -> str:
    if since.at_s is None:
        return f"not known: {since.why}"
    if since.at_least:
        return f"{clock(since.at_s)} or longer: {since.why}"
    return f"{clock(since.at_s)} (it began within the {since.within_s:.0f} s before)"


def _cpus(explanation: SlowExplanation) -> Iterator[str]:
    for use in explanation.cpus:
        yield f"CPU time: {use.text}"
    for cpu in explanation.foreign_cpus:
        share = f"{cpu.share:.0%} of the CPU time of {cpu.node}"
        most = f"{cpu.process} of {cpu.user}{_own(cpu.process)}"
        yield f"foreign load: processes of no job have {share}, most of all {most}"


def _rate(value: float | None) -> str:
    return "an unknown rate" if value is None else format_rate(value)
