"""The bundle: what machines set themselves up from, one archive under the name of its digest."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass

from gridwright.providers.aws.user_data import PREFIX, Part
from gridwright.spec.model import GridSpec


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


def grid_bundles(spec: GridSpec, release: str | None = None) -> dict[Part, Bundle]:
    """The bundles of a grid. Raises GridwrightError (INPUT) where it cannot be built as it is written."""
    from gridwright.providers.aws.layout import aws_layout
    from gridwright.providers.aws.machine_files import machine_files

    files = machine_files(spec, aws_layout(spec), release)
    return {part: bundle(content) for part, content in files.parts.items()}
