"""Which bucket something is known of: the store, the bucket and the prefix, whatever reaches them.

What is known of one bucket says nothing of another one: an export would find nothing to do there, and write
to keys of the former. So each has a file of its own, and is found again when its bucket is named again.
"""

from __future__ import annotations

import hashlib
from itertools import islice

from gridwright.beneath import Beneath
from gridwright.repository.below import at
from gridwright.repository.keys import MANIFEST, Keys
from gridwright.repository.known import Known
from gridwright.repository.references import StateError, read_state
from gridwright.repository.state_directory import FILE
from gridwright.repository.store import ObjectStore, StoreError, StoreFault

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
    said = _said_of_files(known, below)
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


def _said_of_files(known: Known, below: Beneath) -> tuple[str, str] | None:
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
