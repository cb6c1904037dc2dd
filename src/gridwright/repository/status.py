"""How files and objects of a repository stand: how many, how many differ on which side, and since when.

How long a verb would take is told by how fast it was so far.
What moves no content, such as a deletion or a new name, takes its time by the piece, whatever its size: each
such kind has a rate of its own. All else has two, which bound one another: of smaller files than were timed
no more bytes pass in a second, and of larger ones no more files.
"""

from __future__ import annotations

import json
import math
import stat
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from gridwright.errors import Finding
from gridwright.repository.below import at
from gridwright.repository.changelog.changes import ChangelogStanding, standing_of
from gridwright.repository.comparing import has_attributes
from gridwright.repository.contents import CONTENTS
from gridwright.repository.copytool.serving_lock import ServingAgent, serving_agent
from gridwright.repository.deletions import DELETED_DIRECTORIES, refusals
from gridwright.repository.forecast import TransferForecast, TransferLimit, restore_forecast
from gridwright.repository.gone import (
    ELSEWHERE,
    FORGOTTEN,
    LOST,
    NO_MORE,
    all_were_there,
    gone_files,
    gone_names,
    is_elsewhere,
    look_for_lost,
    overwritten,
    there,
    without_object,
)
from gridwright.repository.importing import GIVEN, JOINED, REMOVED, REMOVED_DIRECTORIES
from gridwright.repository.keys import KeyRefusal
from gridwright.repository.known_file import KnownFile
from gridwright.repository.listed import list_bucket
from gridwright.repository.manifest_sync import learn
from gridwright.repository.publishing import KnownLibrary, known_libraries
from gridwright.repository.references import StateError, read_state
from gridwright.repository.scan import Action, MetFiles, find_changes
from gridwright.repository.settings import CountedNames, OpenRepository, RepositoryReport, last_failed_export
from gridwright.repository.store import UNREADABLE, StoreError
from gridwright.repository.trash import trashed
from gridwright.units import counted, format_bytes, format_duration

if TYPE_CHECKING:
    from gridwright.repository.known import Known
    from gridwright.repository.settings import OpenRepository, RepositoryReport


RECOVERY_POINT_MISSED = "recovery-point-missed"
"""The finding that changes are older than they may be without an object."""
OBJECTS_GONE = "objects-gone"
"""The finding that files have no object any more."""
ONLY_COPIES_GONE = "only-copies-gone"
"""The finding that contents were in the bucket alone, and are gone from there."""

_CHANGED = (Action.SEND, Action.ATTRIBUTES)
_LATE_NS = 10 * 10**9
"""A busy server renews the Date of its answers so late: objects as young as that are asked for."""


@dataclass(slots=True)
class RepositoryStatus:
    """What is where. Sizes are bytes, times seconds since 1970."""

    repository: str
    bucket_url: str
    directory: str
    words: str = ""
    """What names it in a command; empty where its name does."""
    objects: int = 0
    object_bytes: int = 0
    files: int = 0
    """Names of files that are here, exported or not."""
    file_bytes: int = 0
    """Those of a file with several names once."""
    unknown_files: int = 0
    """That nobody has compared with their objects yet, since they were touched, or since little is known."""
    unknown_bytes: int = 0
    names_only: int = 0
    names_only_bytes: int = 0
    lost_names: int = 0
    """Names only whose objects are gone, too."""
    lost_bytes: int = 0
    changed_files: int = 0
    """New or changed since they were exported."""
    changed_bytes: int = 0
    changed_on_both: int = 0
    """Of changed files, those whose objects are others than were known, too: no export sends these."""
    gone_files: int = 0
    """Whose objects are still there."""
    changed_objects: int = 0
    """New or changed since they were exported or imported."""
    gone_objects: int = 0
    """Of files that are here and were not changed."""
    overwritten_objects: int = 0
    """The same, whose objects have another content by now."""
    last_export: float | None = None
    """When the last whole export began."""
    unprotected_s: float | None = None
    """How old the oldest change may be that no object has, the achieved recovery point; 0 for none.

    A file whose object was deleted or overwritten counts since then. None where it is not known."""
    required_s: float | None = None
    """How old that may be; None where nothing is required."""
    agent: ServingAgent | None = None
    """The agent of Lustre's HSM on this node that brings contents; None for none, or where a user asks."""
    changelogs: list[ChangelogStanding] = field(default_factory=list)
    """Of each MDT, where changes are found by changelogs."""
    changelog_trouble: str = ""
    """Why changelogs cannot be read, and exports scan; empty where they can."""
    restore_requests: int = 0
    restore_usd: float = 0.0
    """Requests of a full restore at list prices, without traffic."""
    restore_s: float = 0.0
    """Seconds of a full restore at least."""
    restore_bound_by: str = ""
    refused: list[str] = field(default_factory=list)
    """Deletions that the last export or the last import has refused."""
    nameless: CountedNames = field(default_factory=CountedNames)
    """Files that no object can be made of: the recovery point is that of all others."""
    left_behind: str = ""
    """What the last export of all could not send, and where most of it lies; empty for nothing."""
    failed: CountedNames = field(default_factory=CountedNames)
    libraries: list[KnownLibrary] = field(default_factory=list)
    """Those that have exported to the bucket, this one first."""
    notes: list[str] = field(default_factory=list)
    """What lies aside since a release was killed, and what is never exported."""
    silence: Collection[str] = ()
    """Names of findings that the spec silences."""
    has_timer: bool = False

    @property
    def is_well(self) -> bool:
        """Whether nothing is missed, refused or lost."""
        return not self.findings and not self.refused

    @property
    def finding(self) -> Finding | None:
        """The gravest of the findings, or None."""
        return next(iter(self.findings), None)

    @property
    def findings(self) -> list[Finding]:
        """Only copies that are gone, a recovery point that is required and missed, objects that are gone."""
        return [each for each in self._findings() if each.name not in self.silence]

    def _findings(self) -> Iterator[Finding]:
        if self.lost_names:
            yield Finding(
                "error",
                ONLY_COPIES_GONE,
                f"repository {self.repository}: {counted(self.lost_names, 'file')}, in the bucket alone, "
                "lost the object: somebody has deleted it there",
                "Bring them back to the bucket, from older versions or a backup; the notes name them. Where "
                f"nobody needs them, run gridwright repo import {self._named} --names --deletions "
                f"--delete-up-to {self.lost_names}, which forgets them",
            )
        required_s, age_s = self.required_s, self.unprotected_s
        if required_s is not None and (age_s is None or age_s > required_s):
            now = "that is not known" if age_s is None else f"it is {format_duration(age_s)}"
            if self.last_export is None:
                now = "this library was never exported as a whole"
            yield Finding(
                "warning",
                RECOVERY_POINT_MISSED,
                f"repository {self.repository}: no change may be older than {format_duration(required_s)} "
                f"without an object, and {now}; {'; '.join(self._differences())}",
                "\n  ".join(self._remedies()),
            )
        if self.gone_objects:
            yield Finding(
                "warning",
                OBJECTS_GONE,
                f"repository {self.repository}: {counted(self.gone_objects, 'file')}, unchanged here, lost "
                "the object: somebody has deleted it in the bucket",
                self._again,
            )

    def _differences(self) -> Iterator[str]:
        """What makes the recovery point."""
        if self.changed_files:
            both = f" ({self.changed_on_both} of them, and the objects, too)" * bool(self.changed_on_both)
            yield f"changed files and directories: {self.changed_files}{both}"
        if self.left_behind:
            yield self.left_behind
        if self.unknown_files:
            yield f"files that are not known yet: {self.unknown_files}"
        if self.gone_objects:
            yield f"files whose objects are gone: {self.gone_objects}"
        if self.overwritten_objects:
            yield f"files whose objects were overwritten: {self.overwritten_objects}"

    def _remedies(self) -> Iterator[str]:
        if self.changed_files > self.changed_on_both or self.unknown_files:
            why = ", which names what cannot be sent" * bool(self.left_behind)
            if self.has_timer:
                unit = f"gridwright-export-{self.repository}"
                why += f", and look why its timer did not: journalctl -u {unit}"
            yield f"Run gridwright repo export {self._named}{why}"
        if self.changed_on_both:
            yield (
                "Choose a side for what was changed on both: gridwright repo export "
                f"{self._named} --prefer files sends files, gridwright repo import {self._named} --prefer "
                "objects takes objects; a path after the name chooses for that alone"
            )
        if self.gone_objects:
            yield self._again
        if self.overwritten_objects:
            yield f"Run gridwright repo import {self._named}, which takes what was written in the bucket"

    @property
    def _named(self) -> str:
        return self.words or self.repository

    @property
    def _again(self) -> str:
        return (
            f"Run gridwright repo export {self._named} --prefer files, which sends files again whose "
            f"objects are gone, or gridwright repo import {self._named} --deletions, which moves them to "
            "the trash"
        )

    def document(self) -> dict[str, Any]:
        """The result for programs."""
        finding = self.finding
        parts = ("words", "failed", "nameless", "changelogs", "silence", "has_timer", "agent", "libraries")
        names = [name for name in self.__slots__ if name not in parts]
        return {name: getattr(self, name) for name in names} | {
            "agent": None if self.agent is None else asdict(self.agent),
            "changelogs": [asdict(each) for each in self.changelogs],
            "libraries": [asdict(each) for each in self.libraries],
            "finding": None if finding is None else asdict(finding),
            "findings": [asdict(each) for each in self.findings],
            "problems": self.failed.document(),
            "failed": self.failed.counts(),
            "nameless": self.nameless.counts() | {"first": self.nameless.document()},
        }

    def text(self) -> str:
        """The result for people."""
        when = "never"
        if self.last_export is not None:
            when = datetime.fromtimestamp(self.last_export, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        besides = f", but for {self.nameless.words} that no object can have" * bool(self.nameless.count)
        wanted = (
            "" if self.required_s is None else f", and {format_duration(self.required_s)} at most is required"
        )
        point = "unknown" if self.unprotected_s is None else format_duration(self.unprotected_s)
        lines = [
            f"{self.repository}: {self.directory} and {self.bucket_url}",
            f"  objects              {self.objects} ({format_bytes(self.object_bytes)})",
            f"  files                {self.files} ({format_bytes(self.file_bytes)})",
            f"  not known yet        {self.unknown_files} ({format_bytes(self.unknown_bytes)}); the next "
            "export compares them",
            f"  in the bucket alone  {self.names_only} ({format_bytes(self.names_only_bytes)})",
            f"  changed files        {self.changed_files} ({format_bytes(self.changed_bytes)}"
            f"{' to export' * (self.changed_files != self.changed_on_both or not self.changed_files)})",
            f"  files gone           {self.gone_files}, whose objects are there",
            f"  changed objects      {self.changed_objects}",
            f"  objects gone         {self.gone_objects}, whose files are there",
            f"  objects overwritten  {self.overwritten_objects}, whose files are there, unchanged",
            f"  last whole export    {when}{besides}",
            f"  oldest change that no object has: {point}{wanted}",
            f"  full restore: {restore_text(self)}",
        ]
        if self.lost_names:
            lines.insert(4, f"  only copies gone     {self.lost_names} ({format_bytes(self.lost_bytes)})")
        if self.changed_on_both:
            at_changed = next(number for number, line in enumerate(lines) if line.startswith("  files gone"))
            lines.insert(at_changed, f"  changed on both      {self.changed_on_both}, which no export sends")
        if self.agent is not None:
            lines.append(f"  agent of this node: {self.agent.text()}")
        lines += [f"  library {each.text()}" for each in self.libraries]
        lines += [f"  changelog of {each.text()}" for each in self.changelogs]
        if self.changelog_trouble:
            lines.append(f"  exports look at all files: {self.changelog_trouble}")
        lines += [f"  {each}" for each in self.refused]
        if self.left_behind:
            lines.append(f"  {self.left_behind}")
        lines += [f"  {each}" for each in self.failed.lines()]
        lines += [f"  {note}" for note in self.notes]
        lines += [f"  {line}" for each in self.findings for line in str(each).splitlines()]
        return "\n".join(lines)


class Restorable(Protocol):
    """What is known of a full restore."""

    restore_requests: int
    restore_usd: float
    restore_s: float
    restore_bound_by: str
    objects: int
    object_bytes: int


def restore_text(status: Restorable) -> str:
    """A full restore in one line."""
    seconds = f"{status.restore_s:.0f}" if status.restore_s >= 10 else f"{status.restore_s:.1f}"
    return (
        f"at least {seconds} s, bound by {status.restore_bound_by}; "
        f"{counted(status.restore_requests, 'request')}, {status.restore_usd:.2f} USD, and traffic"
    )


def foresee_restore(status: Restorable, found: TransferForecast, back: Sequence[TransferLimit]) -> None:
    """Fill in what a full restore takes, as `predict --repository` has it."""
    status.restore_s, status.restore_bound_by = found.seconds, found.bound_by
    if not back:
        status.restore_bound_by += "; how fast bytes come is not known yet"
    status.restore_requests = sum((found.requests or {}).values())
    status.restore_usd = found.requests_usd or 0.0


def repository_status(opened: OpenRepository, back: Sequence[TransferLimit] = ()) -> RepositoryStatus:
    """Look at both sides: one scan of the files, one listing of the bucket. Raises GridwrightError.

    `back` limits a transfer from the store to the files; so does the best rate so far.
    """
    settings, known = opened.settings, opened.known
    status = RepositoryStatus(
        settings.name,
        settings.bucket_url,
        str(settings.directory),
        settings.words,
        required_s=settings.rpo_s,
        silence=settings.silence,
        has_timer=settings.has_timer,
    )
    if settings.archive_id is not None:
        status.agent = serving_agent(settings.directory, settings.archive_id)
    if settings.changelog is not None:
        status.changelogs, status.changelog_trouble = standing_of(opened, settings.changelog)
    report = opened.report("status")
    learn(opened, report)
    list_bucket(opened)
    met = MetFiles()
    work = find_changes(opened, (), report, deletions=True, met=met)
    status.failed, status.nameless = report.failed, report.nameless
    status.left_behind = last_failed_export(known)
    status.refused = [f"the {what} refused: {why}" for what, why in refusals(known.fact)]
    status.files, status.file_bytes = met.count, met.bytes
    changed = [work.get(action, (0, 0)) for action in _CHANGED]
    status.changed_files, status.changed_bytes = sum(count for count, _ in changed), changed[0][1]
    own_objects = _compare_with_objects(opened, status, report)
    _count_names(opened, status, report)
    if known.is_empty() and (status.changed_files or status.unknown_files):
        report.notes.append(
            "nothing is known here yet of files or objects: gridwright repo export NAME compares them"
        )
    status.notes = [*report.all_notes, *(f"trash: {each.text()}" for each in trashed(opened.below.root))]
    status.last_export = known.moment("exported")
    status.libraries = known_libraries(known)
    ages = [*_ages_of_unknown(opened, status), *_ages_of_objects(opened, status)]
    status.changed_objects -= own_objects
    if status.changed_files or own_objects:
        ages.append(_age(status.last_export))
    status.unprotected_s = None if None in ages else max((each for each in ages if each), default=0.0)
    mean = status.object_bytes / max(1, status.objects)
    limits = [*back, *best_limits(known, CONTENTS, mean)]
    foresee_restore(status, restore_forecast(status.object_bytes, status.objects, limits), limits)
    return status


def _compare_with_objects(opened: OpenRepository, status: RepositoryStatus, report: RepositoryReport) -> int:
    """Take from what is changed what may be what its object is; count what was changed on both sides.

    So it is after an export that was killed: what it has sent is noted later. Returns how many objects are
    so. A file that became a directory is gone.
    """
    known, count = opened.known, 0
    begun = dict(known.begun())
    for path, action, size, stamp in known.work() if known.count_listed()[0] else ():
        if action not in _CHANGED or stamp is None:
            continue
        row, is_directory = known.get(path), stat.S_ISDIR(int(stamp.partition(b" ")[0]))
        if row is not None and row.inode and is_directory and not row.attributes.is_directory:
            status.gone_files += known.listed(row.key or "") is not None
        may_be_same = _may_be_same(
            opened, path, row, size, is_directory=is_directory, is_sent=begun.get(path) == stamp
        )
        if may_be_same:
            count += row is None or not row.is_only_in_bucket
            status.changed_files -= 1
            status.changed_bytes -= size if action == Action.SEND else 0
            status.unknown_files += not is_directory
            status.unknown_bytes += size
        elif may_be_same is False and not is_directory:
            status.changed_on_both += 1
            report.note_of("were changed here and in the bucket", path)
    return count


def _may_be_same(
    opened: OpenRepository,
    path: bytes,
    row: KnownFile | None,
    size: int,
    *,
    is_directory: bool,
    is_sent: bool,
) -> bool | None:
    """Whether a changed file may be what its object is; None for no object, or the known one.

    `is_sent` says that an export which did not end was about to send this very file.
    """
    try:
        key = opened.keys.key_of(path, is_directory=is_directory) if path else opened.keys.start
    except KeyRefusal:
        return None
    if row is not None and row.key is not None and row.attributes.is_directory == is_directory:
        key = row.key
    listed = opened.known.listed(key)
    is_known = row is not None and row.key == key and not row.is_only_in_bucket
    if listed is None or listed[1] == UNREADABLE or (is_known and row is not None and listed[1] == row.etag):
        return None
    return (is_sent or not is_known) and listed[0] == size


def _age(moment: float | None) -> float | None:
    return None if moment is None else max(0.0, time.time() - moment)


def _count_names(opened: OpenRepository, status: RepositoryStatus, report: RepositoryReport) -> None:
    """Count names only, without those whose objects are gone, too, which are named."""
    look_for_lost(opened)
    are_names = f"is_name_only <> 0 AND (inode <> 0) = ({there(opened.known)})"
    count, size = opened.known.count(f"{are_names} AND NOT ({NO_MORE})")
    for row in gone_names(opened):
        count, size = count - 1, size - row.size
        if is_elsewhere(opened, row):
            report.note_of(ELSEWHERE, row.path)
            continue
        status.lost_names, status.lost_bytes = status.lost_names + 1, status.lost_bytes + row.size
        report.note_of(f"have no copy any more: {LOST}", row.path)
    status.names_only, status.names_only_bytes = count, size


def _ages_of_unknown(opened: OpenRepository, status: RepositoryStatus) -> Iterator[float | None]:
    """Count files that the next export compares; how old changes of theirs may be, in seconds.

    Who writes to a file and sets its time back is seen by the export alone, which reads it. A file that this
    library never exported may have been another one than its object for however long.
    """
    for path, action, row in opened.known.work_with_rows():
        if action != Action.COMPARE or row is None or row.attributes.is_directory:
            continue
        if not _is_loaded(opened, path, row):
            status.unknown_files += 1
            status.unknown_bytes += row.size if row.link_of is None else 0
            yield None if row.is_only_in_bucket else _age(status.last_export)


def _is_loaded(opened: OpenRepository, path: bytes, row: KnownFile) -> bool:
    """Whether a file was touched by somebody who only brought its content."""
    try:
        status = opened.below.status(path)
        if status is None or not row.inode:
            return False
        directory, name = opened.below.parent(path)
        state = read_state(at(directory, name))
    except (OSError, StateError):
        return False
    return state is not None and state.is_of(row.etag, status)


def _is_of_late_date(opened: OpenRepository, row: KnownFile, etag: str, modified_ns: int) -> bool:
    """Whether an object is the known one, and the answer to its upload had a Date that was made before."""
    if row.etag != etag or modified_ns - row.stored_ns > _LATE_NS:
        return False
    with suppress(StoreError):
        return has_attributes(opened.store.head(row.key or "").result(), row.attributes)
    return False


def _ages_of_objects(opened: OpenRepository, status: RepositoryStatus) -> Iterator[float | None]:
    """Count objects; for how long files may have had none with their content, in seconds."""
    known = opened.known
    status.objects, status.object_bytes = known.count_listed()
    for key, _, etag, modified_ns, _ in known.all_listed():
        row = known.by_key(key)
        # Stores on a file system (versitygw) give a directory a new date with each object below it.
        since_ns = 0 if key.endswith("/") else modified_ns
        is_known = row is not None and (
            row.is_of(etag, since_ns) or _is_of_late_date(opened, row, etag, modified_ns)
        )
        if not is_known:
            status.changed_objects += 1
    # What is gone on both sides, as after an export of another machine, is nothing to be done.
    status.gone_files += sum(1 for _ in gone_files(known))
    status.gone_objects = sum(1 for _ in without_object(known))
    if status.gone_objects:
        yield _age(all_were_there(known) or status.last_export)
    for _, since in overwritten(known):
        status.overwritten_objects += 1
        yield _age(since)


_SHORTEST_S = 0.5
"""Less work says nothing of a rate."""
_ALONE = 0.9
"""Of all that a command has done: a kind with this share of it has its rate by that."""
_BY_COUNT = frozenset({
    Action.ATTRIBUTES, Action.DELETE, Action.RENAME, DELETED_DIRECTORIES, FORGOTTEN, GIVEN, JOINED,
    REMOVED, REMOVED_DIRECTORIES,
})  # fmt: skip
"""What moves no content."""


def note_rate(opened: OpenRepository, report: RepositoryReport) -> None:
    """Keep the best rates of a verb, in files and bytes per second, of what a command has done alone."""
    seconds, totals = report.worked_s, _totals(report)
    if report.is_dry_run or seconds < _SHORTEST_S:
        return
    most = _ALONE * sum(count for count, _ in totals.values())
    for kind, (count, size) in totals.items():
        if not count or count < most:
            continue
        best = _best(opened.known, report.verb, kind)
        for name, amount in (("files", count), ("bytes", size)):
            if amount / seconds > best.get(f"{name}_per_s", 0.0):
                best |= {f"{name}_per_s": amount / seconds, f"{name}_mean": size / count}
        opened.known.set_fact(_fact(report.verb, kind), json.dumps(best))


def estimate(opened: OpenRepository, report: RepositoryReport) -> None:
    """Say in a dry run how long it would take at least, at the best rates so far; None without any."""
    bounds = list[float]()
    totals = {kind: each for kind, each in _totals(report).items() if each[0]}
    for kind, (count, size) in totals.items():
        best, mean = _best(opened.known, report.verb, kind), size / count
        if best.get("files_per_s"):
            bounds.append(count / best["files_per_s"] if mean >= best.get("files_mean", 0.0) else 0.0)
        if best.get("bytes_per_s"):
            bounds.append(size / best["bytes_per_s"] if mean <= best.get("bytes_mean", math.inf) else 0.0)
    if bounds or not totals:
        report.at_least_s = max(bounds, default=0.0)


def best_limits(known: Known, verb: str, mean: float) -> list[TransferLimit]:
    """What a verb carried at best so far, as a limit of a forecast of files with `mean` bytes.

    Empty where nothing was timed, or smaller files alone.
    """
    best = _best(known, verb)
    rate = best.get("bytes_per_s", 0.0) if mean <= best.get("bytes_mean", math.inf) else 0.0
    return [TransferLimit("the best rate of this repository so far", rate)] if rate > 0 else []


def _fact(verb: str, kind: str) -> str:
    return f"rate {verb}" + (f", {kind}" if kind else "")


def _best(known: Known, verb: str, kind: str = "") -> dict[str, float]:
    try:
        found: Any = json.loads(known.fact(_fact(verb, kind)) or "{}")
        return {str(name): float(value) for name, value in found.items()}
    except (ValueError, AttributeError, TypeError):
        return {}


def _totals(report: RepositoryReport) -> dict[str, tuple[int, int]]:
    """How many, and bytes that are moved, by kind; what moves content is one kind, without a name."""
    found = {kind: (each.count, 0) for kind, each in report.done.items() if kind in _BY_COUNT}
    moved = [each for kind, each in report.done.items() if kind not in _BY_COUNT]
    return found | {"": (sum(each.count for each in moved), sum(each.bytes for each in moved))}
