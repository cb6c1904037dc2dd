"""The manifest: one Parquet file beside the objects that says of each what a listing does not.

Who makes a file system of the bucket, or compares with it, reads it instead of asking for each object. Rows
are in the order of paths. An object whose ETag differs from its row's was written since, and is asked for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gridwright.repository.admission import Admission
from gridwright.repository.extended import LONGEST_XATTRS
from gridwright.repository.known_file import COLUMNS, LONGEST_PATH, KnownFile, why_unfit

FORMAT = 2
"""1 had no `stored_ns`."""
_ROWS, _GROUP_BYTES = 20_000, 128 << 20
"""Of a row group that is written: rows, or bytes of their extended attributes."""
_READ_ROWS = 2_000
"""Rows that are Python's at once."""
MOST_REFUSED = 1_000
"""Rows that are refused before the whole manifest is."""
MOST_GROUP_ROWS, MOST_GROUP_BYTES = 1 << 20, 1 << 30
"""Of a row group, as the file says it; those that are written have 20,000 rows."""
_LATEST_S = 2**33
EXPORTED_OF = "exported of "
"""How facts begin that say when a library, by its identifier, was last exported as a whole."""
_HERE_ONLY = ("ctime_ns", "inode", "is_name_only")
"""Columns that are true on one file system alone."""
_BINARY = frozenset({"path", "target", "xattrs", "link_of"})
_TEXT = frozenset({"key", "etag", "version_id", "crc64", "libraries"})
_LATER = frozenset({"stored_ns", "libraries"})
"""Columns that the first releases did not write; those leave columns that they do not know."""
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

    _take_little_memory()
    schema, count, size = _schema(facts), 0, 0
    columns: dict[str, list[Any]] = {name: [] for name in _WRITTEN}
    with file.open("wb") as out:
        with pq.ParquetWriter(out, schema, compression="zstd") as writer:

            def flush() -> None:
                arrays = [_array(columns[name], schema.field(name).type) for name in _WRITTEN]
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
                for each in columns.values():
                    each.clear()

            for row in rows:
                for name, values in columns.items():
                    values.append(getattr(row, name))
                count += 1
                size += len(row.xattrs or b"")
                if count % _ROWS == 0 or size > _GROUP_BYTES:
                    flush()
                    size = 0
            flush()
        out.flush()
        os.fsync(out.fileno())
    return count


def readable_rows(
    rows: Iterable[KnownFile], left_out: Callable[[KnownFile, str], None]
) -> Iterator[KnownFile]:
    """Rows that readers take; `left_out` is called for others, which earlier releases knew, with why."""
    for row in rows:
        if reason := why_unfit(row):
            left_out(row, reason)
        else:
            yield row


class ManifestError(ValueError):
    """A file that is no manifest, is damaged, or is of a newer release."""


def read_facts(file: Path) -> dict[str, str]:
    """What a manifest says of itself, such as when its export began. Raises ManifestError, OSError."""
    import pyarrow.parquet as pq

    with _Reading():
        head = pq.read_schema(file).metadata or {}
        if head.get(b"gridwright.format") not in (b"1", str(FORMAT).encode()):
            raise ManifestError(
                f"it has format {head.get(b'gridwright.format')!r:.40}, and this release reads {FORMAT}"
            )
        facts = {str(name): str(value) for name, value in json.loads(head[b"gridwright.facts"]).items()}
        for name, exported in facts.items():
            is_moment = exported and (name == "exported" or name.startswith(EXPORTED_OF))
            if is_moment and not 0 <= float(exported) < _LATEST_S:
                raise ManifestError(f"its export began at {exported:.40}, which is no time")
        return facts


def _take_little_memory() -> None:
    """Have Arrow give back what it does not need: its own allocator keeps 13 MiB more of a small manifest."""
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())


def _array(values: list[Any], kind: Any) -> Any:  # noqa: ANN401 - Arrow has no types
    """An array of Arrow of numbers, bytes or texts, each of which may be None.

    `pyarrow.array` would import pandas where that is installed: 47 MiB of memory.
    """
    import numpy as np
    import pyarrow as pa

    valid = np.packbits([each is not None for each in values], bitorder="little")
    buffers = [pa.py_buffer(valid)]
    if kind == pa.int64():
        buffers.append(pa.py_buffer(np.array([each or 0 for each in values], np.int64)))
    else:
        pieces = [each.encode() if isinstance(each, str) else each or b"" for each in values]
        ends = np.cumsum([0, *map(len, pieces)], dtype=np.int64).astype(np.int32)
        buffers += [pa.py_buffer(ends), pa.py_buffer(b"".join(pieces))]
    return pa.Array.from_buffers(kind, len(values), buffers)


def read_manifest(file: Path, admission: Admission) -> Iterator[KnownFile]:
    """Its rows that may become files, some in memory at a time. Raises ManifestError, OSError.

    Whoever writes to the bucket writes the manifest: sizes of all that is read are bounded, and rows are in
    the order of paths, so that a few bytes are no endless file.
    """
    import pyarrow.parquet as pq

    _take_little_memory()
    read_facts(file)
    here_only: dict[str, Any] = dict.fromkeys(_HERE_ONLY, 0)
    last: bytes | None = None
    texts = (_BINARY | _TEXT).intersection(pq.read_schema(file).names)
    with _Reading(), pq.ParquetFile(file, pre_buffer=False, read_dictionary=sorted(texts)) as opened:
        columns = _columns_of(opened)
        for batch in opened.iter_batches(_READ_ROWS, columns=columns, use_threads=False):
            for values in _bounded(batch, admission).to_pylist():
                row = KnownFile(**values, **here_only)
                if isinstance(row.path, bytes) and last is not None and row.path <= last:
                    raise ManifestError("its rows are not in the order of paths")
                if (found := admission.admitted(row)) is not None:
                    last = found.path
                    yield found
                elif admission.refused > MOST_REFUSED:
                    raise ManifestError(f"more than {MOST_REFUSED} of its rows make no sense")


def _columns_of(opened: Any) -> list[str]:  # noqa: ANN401 - Arrow has no types
    """The columns to be read. Raises ManifestError where one is of another type, or too large to be read."""
    schema, wanted = opened.schema_arrow, _schema({})
    columns = [name for name in _WRITTEN if name not in _LATER or name in schema.names]
    for name in columns:
        if schema.names.count(name) != 1:
            raise ManifestError(f"it has {schema.names.count(name)} columns {name}")
        found = schema.field(name).type
        found = getattr(found, "value_type", found)
        if found != wanted.field(name).type:
            raise ManifestError(f"its column {name} is {found}, and {wanted.field(name).type} is written")
    for number in range(opened.metadata.num_row_groups):
        group = opened.metadata.row_group(number)
        if group.num_rows > MOST_GROUP_ROWS or group.total_byte_size > MOST_GROUP_BYTES:
            raise ManifestError(f"{group.num_rows} of its rows, {group.total_byte_size} bytes, are one piece")
    return columns


def _bounded(batch: Any, admission: Admission) -> Any:  # noqa: ANN401 - Arrow has no types
    """A batch whose texts are plain ones, without the rows that have a longer one than any that is written.

    Texts come as numbers in a dictionary, so that a long one that many rows have is not copied before.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    fits = pa.array([True] * len(batch))
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_dictionary(array.type):
            most = LONGEST_XATTRS if name == "xattrs" else LONGEST_PATH
            is_short = pc.less_equal(pc.binary_length(array.dictionary), most)
            fits = pc.and_(fits, pc.fill_null(pc.take(is_short, array.indices), True))
    if refused := len(batch) - (pc.sum(fits).as_py() or 0):
        admission.refuse_long(refused)
        if admission.refused > MOST_REFUSED:
            raise ManifestError(f"more than {MOST_REFUSED} of its rows make no sense")
        batch = batch.filter(fits)
    arrays = [
        each.dictionary_decode() if pa.types.is_dictionary(each.type) else each for each in batch.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


class _Reading:
    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: object) -> None:
        import pyarrow as pa

        # Arrow has an OSError without a number for what it cannot decode.
        is_damage = isinstance(
            error, (pa.ArrowException, KeyError, TypeError, ValueError, AttributeError)
        ) or (isinstance(error, (OSError, RecursionError)) and getattr(error, "errno", None) is None)
        if is_damage and not isinstance(error, ManifestError):
            raise ManifestError(f"it is damaged ({str(error).partition(chr(10))[0]:.200})") from error
