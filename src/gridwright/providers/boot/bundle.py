"""The bundle: what machines set themselves up from, one archive under the name of its digest."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Part = Literal["nodes", "servers"]
"""Login, head and compute nodes set themselves up from one bundle, servers of file systems from another one:
what only jobs need changes nothing on servers."""
PREFIX = "bundles/"
"""Of keys in the site bucket that machines may read."""
LOGS = "boot-logs/"
"""Of keys that machines put the logs of tries under that failed; their instance's ID follows."""


def pointer(part: Part) -> str:
    """Key of the object, in the site bucket, that names the bundle of a part."""
    return f"{PREFIX}current/{part}"


@dataclass(frozen=True, slots=True)
class Bundle:
    """A gzipped tar archive."""

    key: str
    """Its key in the site bucket, which has the SHA-256 of the content: machines check it."""
    content: bytes


def bundle(files: Mapping[str, str | bytes]) -> Bundle:
    """These files, by their path; the same files give the same bytes."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(files):
            text = files[name]
            content = text.encode() if isinstance(text, str) else text
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    content = gzip.compress(raw.getvalue(), mtime=0)
    return Bundle(f"{PREFIX}{hashlib.sha256(content).hexdigest()}.tar.gz", content)
