"""What a directory that knows nothing of its bucket, or less than another one, learns from its manifest."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice

from gridwright.errors import environment_error
from gridwright.repository.admission import Admission
from gridwright.repository.comparing import note_restored
from gridwright.repository.gone import is_absent
from gridwright.repository.keys import MANIFEST
from gridwright.repository.known_file import KnownFile
from gridwright.repository.publishing import (
    RELEASES,
    Manifest,
    ManifestError,
    keep_dropped,
    learn_moments,
    library_of,
    note_published,
)
from gridwright.repository.references import ObjectReference
from gridwright.repository.scan import action_for
from gridwright.repository.settings import OpenRepository, RepositoryReport
from gridwright.repository.store import StoreError, StoreFault
from gridwright.repository.unfinished import take_sent
from gridwright.units import format_bytes

_BATCH = 1000


@dataclass(frozen=True, slots=True)
class FetchedManifest:
    """The bucket's manifest."""

    content: Manifest
    etag: str


@contextmanager
def fetched_manifest(opened: OpenRepository, unless: str | None = None) -> Iterator[FetchedManifest | None]:
    """The bucket's manifest; None for none, or for one of the ETag `unless`. Raises GridwrightError."""
    key = opened.keys.own(MANIFEST)
    file = opened.known.working / f"{MANIFEST}.{os.getpid()}.part"
    where = f"s3://{opened.store.bucket}/{key}"
    try:
        try:
            head = opened.store.head(key).result()
        except StoreError as error:
            if error.fault is not StoreFault.NOT_THERE:
                raise
            yield None
            return
        entry = head.entry
        if entry.etag == unless:
            yield None
            return
        room = os.statvfs(opened.known.working)
        if entry.size > room.f_bavail * room.f_frsize // 2:
            raise environment_error(
                f"the manifest is {format_bytes(entry.size)}, more than half of the free space of "
                f"{opened.known.working}",
                where=where,
                remedy=f"make room there; if no export wrote it, {_mend(opened.store.bucket, key)}",
            )
        reference = ObjectReference(opened.settings.bucket_url, key, entry.etag, head.version_id, entry.size)
        with file.open("w+b") as out:
            opened.store.fetch(reference, out.fileno()).result()
        yield FetchedManifest(Manifest(file), entry.etag)
    except ManifestError as error:
        raise environment_error(
            f"the manifest cannot be read: {error}",
            where=where,
            remedy=_mend(opened.store.bucket, key),
        ) from error
    finally:
        file.unlink(missing_ok=True)


def _mend(bucket: str, key: str) -> str:
    """What to do about a manifest that is of no use, and what that costs."""
    return (
        "bring back an older version of it, if the bucket keeps versions: aws s3api list-object-versions "
        f"--bucket {bucket} --prefix {shlex.quote(key)}\n"
        "  Else copy it away and delete it: ACLs, extended attributes and hard links that it alone has are "
        "lost, and nothing protects objects of files that other machines released. So export on each "
        "machine, without --deletions, before anything else"
    )


def tell_manifest(opened: OpenRepository, admission: Admission) -> bool:
    """Keep what the bucket's manifest says, for this run, which notes what is here from now on.

    Returns what `Known.note_present_under` does. Raises GridwrightError.
    """
    with fetched_manifest(opened) as found:
        if found is None:
            return opened.known.note_present_under("")
        is_new = opened.known.note_present_under(found.content.facts.get(RELEASES, ""))
        rows, libraries = found.content.rows(admission), set[str]()
        while some := list(islice(rows, _BATCH)):
            opened.known.tell(some)
            libraries.update(*(each.libraries.split() for each in some))
        keep_dropped(opened.known, "told", found.content.facts.get("written", ""))
        learn_moments(opened.known, found.content.facts, libraries)
        return is_new


def learn(opened: OpenRepository, report: RepositoryReport) -> None:
    """Take what the bucket's manifest says and is not known, as where another machine has exported.

    What a killed export of this one has sent comes first.

    A row that this library has no part in says nothing of the file here: that was never equal to its object.
    Raises GridwrightError.
    """
    known = opened.known
    take_sent(opened, report)
    note_restored(opened)
    with fetched_manifest(opened, unless=known.fact("manifest")) as found:
        if found is None:
            return
        known.newer.forget()
        library, releases = library_of(known), found.content.facts.get(RELEASES, "")
        # Rows without an inode are of files that are not known to be here: nothing is made of them.
        libraries = set[str]()
        rows = found.content.rows(Admission(opened, report, is_made=False))
        while some := list(islice(rows, _BATCH)):
            note_published(known, (told.path for told in some))
            taken = (
                _take(opened, report, told, releases, is_ours=library in told.libraries) for told in some
            )
            known.newer.keep([each for each in taken if each is not None])
            libraries.update(*(told.libraries.split() for told in some))
        keep_dropped(known, "published", found.content.facts.get("written", ""))
        learn_moments(known, found.content.facts, libraries)
        known.set_fact(RELEASES, releases)
        known.set_fact("manifest", found.etag)


def _take(
    opened: OpenRepository, report: RepositoryReport, told: KnownFile, releases: str, *, is_ours: bool
) -> KnownFile | None:
    """Take one row of the manifest; it is returned where the file here is another one, or says less.

    `is_ours` where another machine has found its file in this library.
    """
    known = opened.known
    here = known.get(told.path)
    if here is None or told.is_later(here):
        if is_ours:
            known.put(told)
        elif here is None or here.is_only_in_bucket or is_absent(opened, told.path):
            known.put(told.not_here())
        else:
            # An unchanged file is left, and a changed one is sent over the object that it was equal to alone.
            return told
    elif here.is_version_of(told):
        if (
            is_ours
            or here.attributes.is_directory
            or here.is_only_in_bucket
            or _is_as_known(opened, here)
            or known.was_present_under(releases, here.path)
        ):
            if here.libraries != told.libraries:
                known.put(replace(here, libraries=told.libraries))
            if (*told.rights, told.mtime_ns) != (*here.rights, here.mtime_ns):
                return told
            return None
        # How the file here was stays known: what was changed of it since, a user has changed.
        libraries = f"{told.libraries} {library_of(known)}".strip()
        known.put(replace(here, libraries=libraries).not_here())
        if is_absent(opened, told.path):
            report.note_of("may have been released by another machine: objects stay", told.path, told.mode)
    return None


def _is_as_known(opened: OpenRepository, row: KnownFile) -> bool:
    """Whether a file is here that nobody has touched since it was equal to its object."""
    try:
        status = opened.below.status(row.path)
    except OSError:
        return False
    return status is not None and action_for(status, row) is None
