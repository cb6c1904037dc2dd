"""What a directory that knows nothing of its bucket, or less than another one, learns from its manifest."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from gridwright.errors import environment_error
from gridwright.repository.admission import Admission
from gridwright.repository.keys import MANIFEST
from gridwright.repository.known import Known
from gridwright.repository.manifest import ManifestError, read_facts, read_manifest
from gridwright.repository.references import ObjectReference
from gridwright.repository.settings import OpenRepository, RepositoryReport
from gridwright.repository.store import ObjectEntry, StoreError, StoreFault
from gridwright.units import format_bytes

_BATCH = 1000


@dataclass(frozen=True, slots=True)
class FetchedManifest:
    """The bucket's manifest as a file."""

    file: Path
    etag: str


@contextmanager
def fetched_manifest(opened: OpenRepository, unless: str | None = None) -> Iterator[FetchedManifest | None]:
    """The bucket's manifest; None for none, or for one of the ETag `unless`. Raises GridwrightError."""
    key = opened.keys.own(MANIFEST)
    file = opened.known.state.path / f"{MANIFEST}.{os.getpid()}.part"
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
        room = os.fstatvfs(opened.known.state.descriptor)
        if entry.size > room.f_bavail * room.f_frsize // 2:
            raise environment_error(
                f"the manifest is {format_bytes(entry.size)}, more than half of the free space of "
                f"{opened.known.state.path}",
                where=where,
                remedy="make room there; if no export wrote it, delete that object",
            )
        reference = ObjectReference(opened.settings.bucket_url, key, entry.etag, head.version_id, entry.size)
        with file.open("w+b") as out:
            opened.store.fetch(reference, out.fileno()).result()
        yield FetchedManifest(file, entry.etag)
    except ManifestError as error:
        raise environment_error(
            f"the manifest cannot be read: {error}",
            where=where,
            remedy="delete that object: imports then ask for each object, and the next export writes it",
        ) from error
    finally:
        file.unlink(missing_ok=True)


def tell_manifest(opened: OpenRepository, admission: Admission) -> None:
    """Keep what the bucket's manifest says, for this run. Raises GridwrightError."""
    with fetched_manifest(opened) as found:
        if found is None:
            return
        rows = read_manifest(found.file, admission)
        while some := list(islice(rows, _BATCH)):
            opened.known.tell(some)
        if opened.known.fact("exported") is None:
            opened.known.set_fact("exported", read_facts(found.file).get("exported", ""))


def keep_listing(known: Known, entries: Iterable[ObjectEntry]) -> None:
    """Keep the listing of the bucket, for this run. Raises what `entries` raises."""
    left = iter(entries)
    while some := list(islice(left, _BATCH)):
        known.list_objects(
            (each.key, each.size, each.etag, each.last_modified_ns, each.storage_class) for each in some
        )


def learn(opened: OpenRepository, report: RepositoryReport) -> None:
    """Take what the bucket's manifest says and is not known, as where another machine has exported.

    Rows of the same objects, or of later ones, stay, since they tell of the files here, too. Raises
    GridwrightError.
    """
    known = opened.known
    with fetched_manifest(opened, unless=known.fact("manifest")) as found:
        if found is None:
            return
        # Rows without an inode are of files that are not known to be here: nothing is made of them.
        for row in read_manifest(found.file, Admission(opened, report, is_made=False)):
            here = known.get(row.path)
            # Times of objects are whole seconds: of two in one, the manifest's is the later one.
            if here is not None and here.stored_ns == row.stored_ns:
                is_older = here.etag != row.etag
            else:
                is_older = here is None or here.stored_ns < row.stored_ns
            if is_older:
                # That nothing of it is here stays true, whatever others have exported since.
                row.is_name_only = here is not None and here.is_only_in_bucket
                known.put(row)
        exported = read_facts(found.file).get("exported", "")
        if exported and float(exported) > (known.moment("exported") or 0.0):
            known.set_fact("exported", exported)
        known.set_fact("manifest", found.etag)
