"""The manifest: one Parquet file beside the objects that says of each what a listing does not.

Who makes a file system of the bucket, or compares with it, reads it instead of asking for each object. Rows
are in the order of paths. An object whose ETag differs from its row's was written since, and is asked for.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gridwright.errors import environment_error
from gridwright.repository.content import FileContent
from gridwright.repository.keys import RESERVED
from gridwright.repository.known_file import COLUMNS, KnownFile

if TYPE_CHECKING:
    from gridwright.repository.settings import OpenRepository, RepositoryReport

FORMAT = 2
"""1 had no `stored_ns`."""
NAME = "manifest.parquet"
_ROWS = 20_000
_READ_ROWS = 2_000
"""Rows that are Python's at once."""
_HERE_ONLY = ("ctime_ns", "inode", "is_name_only")
"""Columns that are true on one file system alone."""
_BINARY = frozenset({"path", "target", "xattrs", "link_of"})
_TEXT = frozenset({"key", "etag", "version_id", "crc64"})
_WRITTEN = tuple(name for name in COLUMNS if name not in _HERE_ONLY)


def _schema(facts: Mapping[str, str]) -> Any:  # noqa: ANN401 - Arrow has no types
    import pyarrow as pa

    kinds = {
        name: pa.binary() if name in _BINARY else pa.string() if name in _TEXT else pa.int64()
        for name in _WRITTEN
    }
    head = {"gridwright.format": str(FORMAT), "gridwright.facts": json.dumps(dict(facts))}
    return pa.schema(list(kinds.items()), metadata=head)


def write_manifest(file: Path, rows: Iterable[KnownFile], facts: Mapping[str, str]) -> int:
    """Write the rows, some in memory at a time, and flush them to disk; how many. Raises OSError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema, count = _schema(facts), 0
    columns: dict[str, list[Any]] = {name: [] for name in _WRITTEN}
    with file.open("wb") as out:
        with pq.ParquetWriter(out, schema, compression="zstd") as writer:

            def flush() -> None:
                arrays = [pa.array(columns[name], schema.field(name).type) for name in _WRITTEN]
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
                for each in columns.values():
                    each.clear()

            for row in rows:
                for name, values in columns.items():
                    values.append(getattr(row, name))
                count += 1
                if count % _ROWS == 0:
                    flush()
            flush()
        out.flush()
        os.fsync(out.fileno())
    return count


class ManifestError(ValueError):
    """A file that is no manifest, is damaged, or is of a newer release."""


def read_facts(file: Path) -> dict[str, str]:
    """What a manifest says of itself, such as when its export began. Raises ManifestError, OSError."""
    import pyarrow.parquet as pq

    with _Reading():
        head = pq.read_schema(file).metadata or {}
        if head.get(b"gridwright.format") not in (b"1", str(FORMAT).encode()):
            raise ManifestError(
                f"it has format {head.get(b'gridwright.format')!r}, and this release reads {FORMAT}"
            )
        return {str(name): str(value) for name, value in json.loads(head[b"gridwright.facts"]).items()}


def read_manifest(file: Path) -> Iterator[KnownFile]:
    """Its rows, some in memory at a time. Raises ManifestError, OSError."""
    import pyarrow.parquet as pq

    read_facts(file)
    here_only: dict[str, Any] = dict.fromkeys(_HERE_ONLY, 0)
    with _Reading(), pq.ParquetFile(file, pre_buffer=False) as opened:
        columns = [name for name in _WRITTEN if name != "stored_ns" or name in opened.schema_arrow.names]
        for batch in opened.iter_batches(_READ_ROWS, columns=columns, use_threads=False):
            for values in batch.to_pylist():
                yield KnownFile(**values, **here_only)


class _Reading:
    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: object) -> None:
        import pyarrow as pa

        if isinstance(error, (pa.ArrowException, KeyError, TypeError)) and not isinstance(
            error, ManifestError
        ):
            raise ManifestError(f"it is damaged ({str(error).partition(chr(10))[0]})") from error


def publish_manifest(
    opened: OpenRepository, report: RepositoryReport, begun: float, *, is_whole: bool
) -> None:
    """Send one where anything changed, or where a whole export has been done: it says when that began.

    Raises GridwrightError.
    """
    known = opened.known
    if is_whole:
        known.set_fact("exported", repr(begun))
    if not report.done and not is_whole:
        return
    facts = {"exported": known.fact("exported") or "", "written": repr(time.time())}
    file = Path(opened.settings.directory) / RESERVED / f"{NAME}.part"
    try:
        write_manifest(file, known.rows(), facts)
        with file.open("rb") as content:
            sent = opened.store.send(opened.keys.own(NAME), FileContent(content.fileno()), {}).result()
        known.set_fact("manifest", sent.etag)
    except OSError as error:
        raise environment_error(f"the manifest cannot be written: {error}", where=str(file)) from error
    finally:
        file.unlink(missing_ok=True)
