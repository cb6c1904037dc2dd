"""One repository, opened: its directory, its bucket, what is known of both, and what a command reports.

Which bucket something is known of: the store, the bucket and the prefix, whatever reaches them.

What is known of one bucket says nothing of another one: an export would find nothing to do there, and write
to keys of the former. So each has a file of its own, and is found again when its bucket is named again.

Of names that something is wrong with, all are counted, and the first are kept. Users choose how many there
are and how long each is: so memory and reports stay small, and what is told of all is which directories
they lie in, since an administrator asks whose those are.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import stat
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from gridwright.beneath import Beneath
from gridwright.errors import environment_error
from gridwright.refusals import REMEDIES, reason_of, whose_refusal
from gridwright.repository.below import at
from gridwright.repository.copytool.released import ReleasedNames
from gridwright.repository.file_clock import FileClock
from gridwright.repository.forecast import cost
from gridwright.repository.keys import MANIFEST, RESERVED, Keys, prefix_of, shown
from gridwright.repository.known import Known
from gridwright.repository.references import StateError, read_state
from gridwright.repository.state_directory import FILE, LOCK, advance, check_serial, open_state
from gridwright.repository.store import ObjectStore, StoreError, StoreFault
from gridwright.repository.walking import LibraryFiles, ReservedUnusable, open_reserved
from gridwright.trusted import open_file
from gridwright.units import counted, format_bytes, plural

MOST_KEPT, _MOST_OF_NAME = 200, 300
"""Names that are kept, and characters of one that people are shown."""
_MOST_DIRECTORIES, _SHOWN_DIRECTORIES = 1000, 3
_APART, _TOGETHER = 2, 5
"""Names of one reason that people are shown a line each; of more, those that one line has."""
_LEVELS = 2
"""Of a directory that names are counted by: `home/anna` tells whose they are."""
_ELSEWHERE, _TOP = "other directories", "the top directory"
_FAILED = "failed"
"""The fact that the last export was not whole."""


@dataclass(slots=True)
class CountedNames:
    """How many names, the first of them with the reason, and how many lie below which directory."""

    count: int = 0
    first: list[tuple[str, str]] = field(default_factory=list)
    """Path or key, and why."""
    directories: dict[str, int] = field(default_factory=dict)
    remedies: dict[str, str] = field(default_factory=dict)
    """What to do about a reason."""

    def add(self, name: bytes | str, why: str) -> None:
        """Count a name."""
        self.count += 1
        if len(self.first) < MOST_KEPT:
            self.first.append((shown(name), why))
        path = name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")
        below = path.split(b"/", _LEVELS)[:-1][:_LEVELS]
        self._count(cut(shown(b"/".join(below))) or ".", 1)

    def take(self, others: CountedNames) -> None:
        """Count the names of others, too."""
        self.count += others.count
        self.first += others.first[: MOST_KEPT - len(self.first)]
        self.remedies |= others.remedies
        for name, count in others.directories.items():
            self._count(name, count)

    def _count(self, directory: str, count: int) -> None:
        is_known = directory in self.directories or len(self.directories) < _MOST_DIRECTORIES
        name = directory if is_known else _ELSEWHERE
        self.directories[name] = self.directories.get(name, 0) + count

    @property
    def where(self) -> str:
        """The directories that most of them lie in, each with how many, such as `home/anna (12)`."""
        most = sorted(self.directories.items(), key=lambda each: (-each[1], each[0]))
        shown_first = most[:_SHOWN_DIRECTORIES]
        told = ", ".join(f"{_TOP if name == '.' else name} ({count:,})" for name, count in shown_first)
        return told + (", …" if len(most) > _SHOWN_DIRECTORIES else "")

    def document(self) -> list[dict[str, str]]:
        """The first names for programs."""
        return [{"name": name, "why": why} for name, why in self.first]

    @property
    def words(self) -> str:
        """How many, in words."""
        return counted(self.count, "name")

    def counts(self) -> dict[str, Any]:
        """How many, and where, for programs."""
        return {"count": self.count, "directories": self.directories}

    def lines(self) -> Iterator[str]:
        """The first names for people, and what of the others is known."""
        by_reason: dict[str, list[str]] = {}
        for name, why in self.first:
            by_reason.setdefault(why, []).append(cut(name))
        for why, names in by_reason.items():
            reason = f"{why}: {self.remedies[why]}" if why in self.remedies else why
            if len(names) <= _APART and why not in self.remedies:
                yield from (f"{name}: {reason}" for name in names)
                continue
            others = f" and {len(names) - _TOGETHER:,} more" if len(names) > _TOGETHER else ""
            yield f"{', '.join(names[:_TOGETHER])}{others}: {reason}"
        if (more := self.count - len(self.first)) > 0:
            yield f"and {more:,} more; of all, below: {self.where}"


def cut(name: str) -> str:
    """A name for people, without its middle where it is long."""
    half = _MOST_OF_NAME // 2
    return name if len(name) <= _MOST_OF_NAME else f"{name[:half]}…{name[-half:]}"


def note_failed(known: Known, begun: float, failed: CountedNames) -> None:
    """Keep for `repo status` what an export of all, begun at so many seconds since 1970, could not send."""
    # A flag is none of them: what was not deleted is told as a refusal.
    count = failed.count - sum(name.startswith("--") for name, _ in failed.first)
    told = f"{begun:.0f} {count} {failed.where}" if count else ""
    if told or known.fact(_FAILED):
        known.set_fact(_FAILED, told)


def last_failed_export(known: Known) -> str:
    """What the last export of all could not send, and where most of that lies; empty for nothing."""
    begun, _, rest = (known.fact(_FAILED) or "").partition(" ")
    count, _, where = rest.partition(" ")
    if not begun.isdecimal() or not count.isdecimal():
        return ""
    when = datetime.fromtimestamp(min(int(begun), 2**32), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"the export of {when} was not whole: {int(count):,} could not be sent, below {where}"


_BUCKET = "bucket"
"""The fact that says of which one the file is."""
_MOST_FILES = 100


def place_of(store: ObjectStore, prefix: str) -> str:
    """A repository's place in a store, which is another one for each store, bucket and prefix."""
    return f"{store.place}/{store.bucket}/{prefix.strip('/')}"


def bind(known: Known, store: ObjectStore, below: Beneath, keys: Keys) -> None:
    """Have what is known be that of this bucket; where it is of another one, that is kept as it is.

    What an older release knew, and did not say of which bucket, is of this one where files or the manifest
    say so. Raises GridwrightError, also where the store has to be asked for that and does not answer.
    """
    wanted = place_of(store, keys.prefix)
    found = known.fact(_BUCKET)
    if found is None and (known.is_empty() or _is_former(known, store, below, keys)):
        found = wanted
        known.set_fact(_BUCKET, wanted)
    if found == wanted:
        return
    name, _, ending = FILE.rpartition(".")
    known.database.close()
    known.use_file(f"{name}-{hashlib.sha256(wanted.encode()).hexdigest()[:16]}.{ending}")
    if known.fact(_BUCKET) is None:
        known.set_fact(_BUCKET, wanted)
        known.state.note = (
            f"{wanted} is another repository than {found or 'the one'} that {known.directory} had: files and "
            "objects are compared anew; what is known of the former stays for when its bucket is named again"
        )


def _is_former(known: Known, store: ObjectStore, below: Beneath, keys: Keys) -> bool:
    """Whether what is known without a bucket is of this one: as its files say, or its manifest."""
    manifest = known.fact("manifest")
    there = _manifest(store, keys) if manifest else None
    said = _location_of_files(known, below)
    if said is None:
        return manifest is not None and there == manifest
    return said == (store.bucket, keys.prefix) and (not manifest or there is not None)


def _manifest(store: ObjectStore, keys: Keys) -> str | None:
    """The ETag of the bucket's manifest; None for none. Raises StoreError where the store does not answer."""
    try:
        return store.head(keys.own(MANIFEST)).result().entry.etag
    except StoreError as error:
        if error.fault is not StoreFault.NOT_THERE:
            raise
        return None


def _location_of_files(known: Known, below: Beneath) -> tuple[str, str] | None:
    """The bucket and the prefix that a file says its object is in; None where none of the first says any."""
    for row in islice(known.rows("inode <> 0 AND key IS NOT NULL AND mode & 61440 = 32768"), _MOST_FILES):
        try:
            directory, name = below.parent(row.path)
            state = read_state(at(directory, name))
        except (OSError, StateError):
            continue
        if state is not None:
            prefix = state.reference.bucket_url.removeprefix("s3://").partition("/")[2]
            return state.reference.bucket, prefix.strip("/")
    return None


Prefer = Literal["files", "objects"]
DEFAULT_IDS = (1000, 2**31 - 1)
"""Users and groups of people, as grid specs have them; those below are the system's (UID_MIN of
login.defs(5))."""
_OF_ONE = {"are": "is", "have": "has", "were": "was", "lie": "lies", "take": "takes", "belong": "belongs"}
_NAMES = 5
"""Of several files that a note is about."""


@dataclass(frozen=True, slots=True)
class RepositorySettings:
    """What a spec says of a repository."""

    name: str
    directory: Path
    bucket_url: str
    """`s3://bucket` or `s3://bucket/prefix`."""
    endpoint: str | None = None
    """Where the store is; None is AWS's own, or what the environment says."""
    archive_id: int | None = None
    """HSM archive of an own Lustre, whose copytool brings contents; None where that is not the way."""
    changelog: Path | None = None
    """Which users are registered with Lustre's changelogs, a file of `gridwright setup`; None for scans."""
    rpo_s: float | None = None
    """How old a change may become that no object has, in seconds; None asks for nothing."""
    has_timer: bool = False
    """Whether the spec has it exported by a timer."""
    ids: tuple[int, int] = DEFAULT_IDS
    """The lowest and the highest user and group that root gives files to because the bucket says so."""
    silence: Collection[str] = ()
    """Names of findings that the spec silences."""
    named_by: str = ""
    """The words of a command that name it, quoted for a shell; empty where its name does."""

    @property
    def words(self) -> str:
        """What names it in the commands of advice."""
        return self.named_by or self.name

    @property
    def prefix(self) -> str:
        """The prefix of all keys, which may be empty."""
        return prefix_of(self.bucket_url).strip("/")


@dataclass(slots=True)
class OpenRepository:
    """A repository as commands work on it. Close it in the end."""

    settings: RepositorySettings
    store: ObjectStore
    known: Known
    below: LibraryFiles
    keys: Keys
    clock: FileClock
    lock: int | None
    _released_names: ReleasedNames | None = None

    @classmethod
    def open(
        cls, settings: RepositorySettings, store: ObjectStore, *, alone: bool = True, looks: bool = False
    ) -> OpenRepository:
        """Open it; no other command works on this directory meanwhile, unless `alone` is false.

        Who only `looks` holds up nobody, and changes nothing that is known.
        Raises GridwrightError, and OSError where the directory cannot be opened.
        """
        with ExitStack() as opened:
            opened.enter_context(below := LibraryFiles(settings.directory))
            known = opened.enter_context(closing(Known(settings.directory, looks=looks)))
            lock = hold_directory(settings.directory) if alone and not looks else None
            if lock is not None:
                opened.callback(os.close, lock)
                with suppress(OSError):
                    # One of an older release gets its mark before anybody gives it another name.
                    os.close(open_reserved(below.root, make=False, marks=True))
            bind(known, store, below, Keys(settings.prefix))
            check_serial(known, below.root)
            known.advance = partial(advance, known, below.root)
            opened.pop_all()
        return cls(
            settings, store, known, below, Keys(settings.prefix), FileClock(below.root, looks=looks), lock
        )

    @property
    def is_guarded(self) -> bool:
        """Whether the file system holds back who opens a file whose content is not here.

        Elsewhere names without contents are no files: they are rows, and `repo ls` shows them.
        """
        return self.settings.archive_id is not None

    @property
    def released_names(self) -> ReleasedNames:
        """What makes such files, where it is guarded. Raises GridwrightError where Lustre's library lacks."""
        if self._released_names is None:
            self._released_names = ReleasedNames.of(self.settings.archive_id or 0)
        return self._released_names

    def report(self, verb: str, *, is_dry_run: bool = False) -> RepositoryReport:
        """What a command will have done."""
        return RepositoryReport(
            self.settings.name, verb, is_dry_run, root=self.below.root, words=self.settings.words
        )

    @property
    def owner(self) -> tuple[int, int]:
        """User and group of the directory. Raises OSError."""
        status = os.fstat(self.below.root)
        return status.st_uid, status.st_gid

    def close(self) -> None:
        """Give up what is under way, and close."""
        self.store.close()
        self.known.close()
        self.below.close()
        if self.lock is not None:
            os.close(self.lock)


def hold_directory(directory: Path) -> int:
    """Hold a lock on what is known, until the descriptor is closed. Raises GridwrightError, OSError."""
    state = open_state(directory)
    try:
        descriptor = open_file(state.made, LOCK, os.O_RDWR | os.O_CREAT)
    finally:
        state.close()
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise environment_error(
            "another command works on this directory", where=str(directory), remedy="wait until it has ended"
        ) from None
    return descriptor


@dataclass(slots=True)
class ReportedCount:
    """How many, and how many bytes; of which kinds, where that is known of all of them."""

    count: int = 0
    bytes: int = 0
    files: int = 0
    """Names of files, as `find -type f` counts them."""
    links: int = 0
    """Symbolic links."""
    directories: int = 0

    def add(self, size: int = 0, mode: int = 0) -> None:
        """Count one more."""
        self.count += 1
        self.bytes += size
        self.files += stat.S_ISREG(mode)
        self.links += stat.S_ISLNK(mode)
        self.directories += stat.S_ISDIR(mode)

    def add_all(self, other: ReportedCount) -> None:
        """Count all of another count."""
        for name in _COUNTED:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def document(self) -> dict[str, int]:
        """For programs."""
        found = asdict(self)
        return found if self._has_kinds else {name: found[name] for name in _COUNTED[:2]}

    def words(self) -> str:
        """As `2 files, 1 directory`."""
        kinds = ((self.files, "file"), (self.links, "link"), (self.directories, "directory"))
        found = [f"{count} {plural(count, word)}" for count, word in kinds if count]
        return ", ".join(found) if self._has_kinds else str(self.count)

    @property
    def _has_kinds(self) -> bool:
        return 0 < self.count == self.files + self.links + self.directories


_NAMELESS = re.compile(r"(gridwright repo [a-z]+) NAME\b")
"""A command in a message, where it is written without knowing what the repository is called by."""
_COUNTED = tuple(each.name for each in fields(ReportedCount))


@dataclass(slots=True)
class RepositoryReport:
    """What a command did, or would do, and what it could not."""

    repository: str
    verb: str
    is_dry_run: bool = False
    done: dict[str, ReportedCount] = field(default_factory=dict)
    failed: CountedNames = field(default_factory=CountedNames)
    """What could not be done."""
    root: int | None = None
    """The open directory of the repository, which tells whose files are refused."""
    nameless: CountedNames = field(default_factory=CountedNames)
    """Files that no object can be made of, since no key can have their names: an export is whole without."""
    notes: list[str] = field(default_factory=list)
    several: dict[str, tuple[ReportedCount, list[str]]] = field(default_factory=dict)
    """What was otherwise with several files, links or directories: how many, and the first of them."""
    requests: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    at_least_s: float | None = None
    """Of a dry run: how long it would take at least; None where nothing says."""
    at_least_by: str = "at its best rates"
    """What the time is reckoned by: the best rates of this repository so far, or what bounds a service."""
    words: str = ""
    """What names it in the commands of advice; empty where its name does."""
    _begun: float = field(default_factory=time.monotonic)
    _last: float = 0.0

    def begin(self) -> None:
        """Note that all is known that is to be done, and the work begins."""
        self._begun = time.monotonic()

    @property
    def worked_s(self) -> float:
        """From then on to the last thing done, in seconds; 0 where nothing was."""
        return max(0.0, self._last - self._begun)

    def add(self, action: str, size: int = 0, mode: int = 0) -> None:
        """Count something done to a file, or to what else a mode says."""
        self._last = time.monotonic()
        self.done.setdefault(action, ReportedCount()).add(size, mode)

    def count(self, action: str) -> ReportedCount:
        """The count of an action."""
        return self.done.setdefault(action, ReportedCount())

    def problem(self, name: bytes | str, why: str) -> None:
        """Note what could not be done; `name` is empty for the repository's own directory."""
        self.failed.add(name or b".", self._naming(why))

    def _naming(self, text: str) -> str:
        """The same, with the words that name the repository in its commands, which can be copied then."""
        return _NAMELESS.sub(lambda found: f"{found[1]} {self.words or self.repository}", text)

    def refused(self, name: bytes, what: str, error: OSError) -> None:
        """Note what the system refuses: what is one user's, or of one reason, is told together.

        `what` is the participle of what cannot be done, such as `written`.
        """
        reason = reason_of(error)
        if isinstance(error, ReservedUnusable):
            if not any(each == RESERVED for each, _ in self.failed.first):
                self.problem(RESERVED, reason)
            self.note_of("were left, since nothing can go to the trash", name)
            return
        why = f"it cannot be {what}: {reason}"
        if error.errno in REMEDIES and reason == os.strerror(error.errno):
            why, remedy = f"cannot be {what}: {reason}", REMEDIES[error.errno]
            if (
                self.root is not None
                and (of_another := whose_refusal(self.root, name, what, error)) is not None
            ):
                why, remedy = of_another
            self.failed.remedies[why] = remedy
        self.problem(name, why)

    @property
    def problems(self) -> list[tuple[str, str]]:
        """Path or key of the first that could not be done, and why; `failed` has counted all."""
        return self.failed.first

    def note_of(self, what: str, name: bytes, mode: int = stat.S_IFREG) -> None:
        """Note what is so of several files, with the names of the first.

        `what` begins with the verb of several, and is true of one in all other words: no `they`, no `their`.
        """
        count, names = self.several.setdefault(self._naming(what), (ReportedCount(), []))
        if len(names) < _NAMES:
            names.append(cut(shown(name)) or ".")
        count.add(mode=mode)

    @property
    def all_notes(self) -> list[str]:
        """All notes, those of several files in the end."""
        found = [self._naming(each) for each in self.notes]
        for what, (count, names) in self.several.items():
            more = ", …" if count.count > len(names) else ""
            found.append(f"{_sentence(count, what)}: {', '.join(names)}{more}")
        if self.nameless.count:
            first, why = self.nameless.first[0]
            found.append(
                f"left out, {self.nameless.words} that no object can have, below "
                f"{self.nameless.where}: {cut(first)}: {why}"
            )
        return found

    @property
    def is_complete(self) -> bool:
        """Whether all was done."""
        return not self.failed.count

    def document(self) -> dict[str, Any]:
        """The result for programs."""
        return {
            "repository": self.repository,
            "verb": self.verb,
            "dry_run": self.is_dry_run,
            "done": {name: each.document() for name, each in self.done.items()},
            "problems": self.failed.document(),
            "failed": self.failed.counts(),
            "nameless": self.nameless.counts() | {"first": self.nameless.document()},
            "notes": self.all_notes,
            "requests": self.requests,
            "requests_usd": round(cost(self.requests), 6),
            "seconds": round(self.seconds, 3),
            "at_least_s": None if self.at_least_s is None else round(self.at_least_s, 1),
            "at_least_by": None if self.at_least_s is None else self.at_least_by,
        }

    def text(self) -> str:
        """The result for people."""
        would = "would be " if self.is_dry_run else ""
        lines = [
            f"{self.repository}: {self.verb}{', a dry run: nothing was changed' if self.is_dry_run else ''}"
        ]
        lines += [
            f"  {would}{action}: {each.words()}" + (f" ({format_bytes(each.bytes)})" if each.bytes else "")
            for action, each in self.done.items()
        ]
        if not self.done and self.is_complete:
            lines.append("  nothing to do")
        lines += [f"  {note}" for note in self.all_notes]
        if self.is_dry_run and self.requests:
            count = sum(self.requests.values())
            lines.append(
                f"  requests: {count}, {cost(self.requests):.4f} USD at list prices, without traffic"
            )
        if self.is_dry_run and self.done:
            unknown = "unknown: nothing of this repository was timed yet"
            time = (
                unknown
                if self.at_least_s is None
                else f"at least {_span(self.at_least_s)}, {self.at_least_by}"
            )
            lines.append(f"  time: {time}")
        if self.failed.count:
            lines.append(f"  could not be done: {self.failed.count}")
            lines += [f"    {each}" for each in self.failed.lines()]
        return "\n".join(lines)


def _span(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _sentence(count: ReportedCount, what: str) -> str:
    """A sentence of one file or of several; `what` begins with the verb of several."""
    verb, _, rest = what.partition(" ")
    return f"{count.words()} {_OF_ONE.get(verb, verb) if count.count == 1 else verb} {rest}"


def is_chosen(path: bytes, chosen: Sequence[bytes]) -> bool:
    """Whether a path is one of those that were chosen, or below one; all are where none was."""
    return not chosen or any(path == each or path.startswith(each + b"/") for each in chosen)
