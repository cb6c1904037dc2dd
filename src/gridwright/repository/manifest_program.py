"""The manifest's file by Arrow, in a process of its own: `python -m gridwright.repository.manifest_program`.

Arrow takes some 40 MiB of memory, which is free again as soon as all rows are written or read. Stdin has an
order, of `manifest.py`, and batches of rows to be written, and None at their end. Stdout has what was read,
and an end: all in the format of marshal, since both sides are of one release. It ends with its input.
"""

from __future__ import annotations

import errno
import json
import marshal
import os
import resource
import signal
import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

FORMAT = 2
"""1 had no `stored_ns`."""
WRITE, READ = "write", "read"
FACTS, ROWS, END, DAMAGED, FAILED = "facts", "rows", "end", "damaged", "failed"
"""What is said: facts; rows that were refused, names of columns, and rows; nothing; why; errno and why."""
_ROWS, _GROUP_BYTES = 20_000, 128 << 20
"""Of a row group that is written: rows, or bytes of their extended attributes."""
_READ_ROWS = 2_000
"""Rows that are Python's at once."""
MOST_GROUP_ROWS, MOST_GROUP_BYTES = 1 << 20, 1 << 30
"""Of a row group, as the file says it; those that are written have 20,000 rows."""

_MEMORY = 4 << 30
"""Address space of who reads: what a file says of its sizes is the word of whoever writes to the bucket."""
_LONG: Any = object()
"""A text that is not taken."""
Values = tuple[Any, ...]
"""Of one row, in the order of columns."""


class ManifestError(ValueError):
    """A file that is no manifest, is damaged, or is of a newer release."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns of a manifest by name: `bytes`, `str` or `int`, each with the longest value that is read."""

    columns: Mapping[str, tuple[str, int]]
    later: Sequence[str]
    """Those that the first releases did not write; those leave columns that they do not know."""


def write(file: str, layout: Layout, facts: Mapping[str, str], batches: Iterable[Sequence[Values]]) -> None:
    """Write rows, some in memory at a time, and flush them to disk. Raises OSError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    _take_little_memory()
    schema = _schema(layout, facts)
    size_at, rows, size = list(layout.columns).index("xattrs"), list[Values](), 0
    with Path(file).open("wb") as out:
        with pq.ParquetWriter(out, schema, compression="zstd") as writer:

            def flush() -> None:
                arrays = [
                    _array([row[place] for row in rows], field.type) for place, field in enumerate(schema)
                ]
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))

            for row in (row for batch in batches for row in batch):
                rows.append(row)
                size += len(row[size_at] or b"")
                if len(rows) == _ROWS or size > _GROUP_BYTES:
                    flush()
                    rows, size = [], 0
            flush()
        out.flush()
        os.fsync(out.fileno())


def read(file: str, layout: Layout) -> Iterator[tuple[Any, ...]]:
    """What a file has: FACTS with its facts, then ROWS, some in memory at a time.

    Whoever writes to the bucket writes the manifest: sizes of all that is read are bounded. Raises
    ManifestError, OSError.
    """
    import pyarrow.parquet as pq

    _take_little_memory()
    with _Reading():
        head = pq.read_schema(file)
        texts = [name for name, (kind, _) in layout.columns.items() if kind != "int" and name in head.names]
        yield FACTS, _facts(head.metadata or {})
        with pq.ParquetFile(file, pre_buffer=False, read_dictionary=texts) as opened:
            names = _columns_of(opened, layout)
            for batch in opened.iter_batches(_READ_ROWS, columns=names, use_threads=False):
                left_out, rows = _rows_of(batch, layout)
                yield ROWS, left_out, names, rows


def _schema(layout: Layout, facts: Mapping[str, str]) -> Any:  # noqa: ANN401 - Arrow has no types
    import pyarrow as pa

    kinds = {"bytes": pa.binary(), "str": pa.string(), "int": pa.int64()}
    head = {"gridwright.format": str(FORMAT), "gridwright.facts": json.dumps(dict(facts))}
    return pa.schema([(name, kinds[kind]) for name, (kind, _) in layout.columns.items()], metadata=head)


def _facts(head: Mapping[bytes, bytes]) -> dict[str, str]:
    if head.get(b"gridwright.format") not in (b"1", str(FORMAT).encode()):
        raise ManifestError(
            f"it has format {head.get(b'gridwright.format')!r:.40}, and this release reads {FORMAT}"
        )
    return {str(name): str(value) for name, value in json.loads(head[b"gridwright.facts"]).items()}


def _take_little_memory() -> None:
    """Have Arrow give back what it does not need: its own allocator keeps 13 MiB more of a small manifest."""
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())


def _array(values: list[Any], kind: Any) -> Any:  # noqa: ANN401 - Arrow has no types
    """An array of Arrow of numbers, bytes or texts, each of which may be None.

    `pyarrow.array` would import pandas where that is installed: 47 MiB of memory.
    """
    import pyarrow as pa

    valid = int("0" + "".join(["0" if each is None else "1" for each in reversed(values)]), 2)
    buffers = [pa.py_buffer(valid.to_bytes(len(values) // 8 + 1, "little"))]
    if kind == pa.int64():
        buffers.append(pa.py_buffer(array("q", [each or 0 for each in values])))
    else:
        pieces = [each.encode() if isinstance(each, str) else each or b"" for each in values]
        ends = array("i", accumulate(map(len, pieces), initial=0))
        buffers += [pa.py_buffer(ends), pa.py_buffer(b"".join(pieces))]
    return pa.Array.from_buffers(kind, len(values), buffers)


def _columns_of(opened: Any, layout: Layout) -> list[str]:  # noqa: ANN401 - Arrow has no types
    """The columns to be read. Raises ManifestError where one is of another type, or too large to be read."""
    schema, wanted = opened.schema_arrow, _schema(layout, {})
    columns = [name for name in layout.columns if name not in layout.later or name in schema.names]
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


def _rows_of(batch: Any, layout: Layout) -> tuple[int, list[Values]]:  # noqa: ANN401 - Arrow has no types
    """The rows of a batch, and how many were left out, that have a longer text than any that is written."""
    left_out, columns = set[int](), []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        kind, most = layout.columns[name]
        values = column.to_pylist() if kind == "int" else _texts_of(column, kind, most)
        left_out |= {row for row, value in enumerate(values) if value is _LONG}
        columns.append(values)
    rows = list(zip(*columns, strict=True))
    return len(left_out), [row for place, row in enumerate(rows) if place not in left_out]


def _texts_of(column: Any, kind: str, most: int) -> list[Any]:  # noqa: ANN401 - Arrow has no types
    """The texts of a column, with _LONG for those that are too long.

    They come as numbers in a dictionary, so that a long one that many rows have is copied for none. Arrow
    itself would load `pyarrow.compute` to look them up: 9 MiB of memory.
    """
    texts = column.dictionary
    _, ends, data = texts.buffers()
    bounds = memoryview(ends).cast("i")[texts.offset : texts.offset + len(texts) + 1]
    content = memoryview(data or b"")
    found: dict[int | None, Any] = {None: None}
    places = column.indices.to_pylist()
    for place in set(places) - {None}:
        start, end = bounds[place], bounds[place + 1]
        value = _LONG if end - start > most else bytes(content[start:end])
        found[place] = value.decode() if kind == "str" and value is not _LONG else value
    return [found[place] for place in places]


class _Reading:
    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: object) -> None:
        import pyarrow as pa

        if isinstance(error, MemoryError):
            raise ManifestError("it takes more memory to be read than any that is written") from error
        # Arrow has an OSError without a number for what it cannot decode.
        is_damage = isinstance(
            error, (pa.ArrowException, KeyError, TypeError, ValueError, AttributeError)
        ) or (isinstance(error, (OSError, RecursionError)) and getattr(error, "errno", None) is None)
        if is_damage and not isinstance(error, ManifestError):
            raise ManifestError(f"it is damaged ({str(error).partition(chr(10))[0]:.200})") from error


def main() -> int:
    """Do what the order on stdin says."""
    # Who gave it ends it: what a terminal sends to both is for that one alone.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Arrow does without, and takes 12 MiB less.
    sys.modules["numpy"] = None  # type: ignore[assignment]
    orders, out = sys.stdin.buffer, sys.stdout.buffer
    verb, file, columns, later, facts = marshal.load(orders)  # noqa: S302 - of who has begun it
    layout = Layout(columns, later)
    try:
        if verb == WRITE:
            write(file, layout, facts, iter(lambda: marshal.load(orders), None))  # noqa: S302 - the same
        else:
            _, most = resource.getrlimit(resource.RLIMIT_AS)
            limit = _MEMORY if most == resource.RLIM_INFINITY else min(_MEMORY, most)
            resource.setrlimit(resource.RLIMIT_AS, (limit, most))
            for said in read(file, layout):
                marshal.dump(said, out)
        end: tuple[Any, ...] = (END,)
    except ManifestError as error:
        end = DAMAGED, str(error)
    except OSError as error:
        end = FAILED, error.errno or errno.EIO, error.strerror or str(error)
    marshal.dump(end, out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
