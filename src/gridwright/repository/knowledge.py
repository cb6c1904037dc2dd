"""What a directory that knows nothing of its bucket learns from the bucket's manifest."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gridwright.errors import environment_error
from gridwright.repository.keys import RESERVED
from gridwright.repository.manifest import NAME, ManifestError, read_facts, read_manifest
from gridwright.repository.references import ObjectReference
from gridwright.repository.settings import OpenRepository
from gridwright.repository.store import StoreError, StoreFault


@contextmanager
def fetched_manifest(opened: OpenRepository) -> Iterator[Path | None]:
    """The bucket's manifest as a file, or None where there is none. Raises GridwrightError."""
    key = opened.keys.own(NAME)
    file = opened.settings.directory / RESERVED / f"{NAME}.{os.getpid()}.part"
    try:
        try:
            head = opened.store.head(key).result()
        except StoreError as error:
            if error.fault is not StoreFault.NOT_THERE:
                raise
            yield None
            return
        reference = ObjectReference(
            opened.settings.bucket_url, key, head.entry.etag, head.version_id, head.entry.size
        )
        with file.open("w+b") as out:
            opened.store.fetch(reference, out.fileno()).result()
        yield file
    except ManifestError as error:
        raise environment_error(
            f"the manifest cannot be read: {error}",
            where=f"s3://{opened.store.bucket}/{key}",
            remedy="delete that object: imports then ask for each object, and the next export writes it",
        ) from error
    finally:
        file.unlink(missing_ok=True)


def learn(opened: OpenRepository) -> None:
    """Fill what is known from the bucket's manifest, where nothing is known yet. Raises GridwrightError."""
    if not opened.known.is_empty():
        return
    with fetched_manifest(opened) as file:
        if file is None:
            return
        for row in read_manifest(file):
            opened.known.put(row)
        opened.known.set_fact("exported", read_facts(file).get("exported", ""))
