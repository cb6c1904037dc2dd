"""The process that writes tables: one request a line on stdin, one answer a line on stdout.

It is asked with a `TableRequest`, and answers with a `TableAnswer`. It dies with its parent
(PR_SET_PDEATHSIG, prctl(2)).

Writes one table of a data set in order, as a stream; the file gets its name once it is whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gridwright.beneath import descriptor_path
from gridwright.errors import GridwrightError
from gridwright.messages import decode, encode
from gridwright.schedulers.process_tree import die_with_parent
from gridwright.workload.data_set import opened_below
from gridwright.workload.datasets.table import Checksum, Columns, DataTable, Draws, TablePart, to_batch
from gridwright.workload.messages import Made, TableAnswer, TableRequest

if TYPE_CHECKING:
    import pyarrow as pa


PARTIAL = ".partial"
"""Ends the name of a table that is still being written."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class _HashedFile(io.RawIOBase):
    """A file that is hashed as it is written."""

    def __init__(self, directory: int, name: str) -> None:
        super().__init__()
        self._fd = os.open(name, _NEW, 0o644, dir_fd=directory)
        self.hash = hashlib.sha256()
        self.bytes_ = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.bytes_

    def write(self, data: bytes) -> int:  # type: ignore[override]
        view = memoryview(data).cast("B")
        done = 0
        while done < len(view):
            done += os.write(self._fd, view[done:])
        self.hash.update(view)
        self.bytes_ += len(view)
        return len(view)

    def close(self) -> None:
        if not self.closed:
            try:
                os.fsync(self._fd)
            finally:
                os.close(self._fd)
        super().close()


def write_table(
    table: DataTable,
    path: Path,
    *,
    units: Mapping[str, int],
    seed: int,
    copy: int,
    stopped: Callable[[], bool] = lambda: False,
) -> Made:
    """Make a table and write it to `path`, by way of a file beside it.

    `units` are the units of every table of the data set; the path to the file's directory is the caller's,
    and is followed once. Raises OSError, and InterruptedError if
    `stopped` became true.
    """
    partial = path.name + PARTIAL
    checksum, expected = Checksum(), dict[str, Any]()
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial, dir_fd=directory)
        file = _HashedFile(directory, partial)
        with file, _sink(table, file) as put:
            for part in parts(table, units, seed, copy):
                if stopped():
                    raise InterruptedError
                columns = table.make(part)
                checksum.add_mapping(columns)
                for name, figure in table.expect(columns, part).items():
                    expected[name] = expected[name] + figure if name in expected else figure
                put(columns)
        os.rename(partial, path.name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial, dir_fd=directory)
        raise
    finally:
        os.close(directory)
    return Made(
        rows=checksum.rows,
        bytes_=file.bytes_,
        sha256=file.hash.hexdigest(),
        # The rows of a text are not read as such: its bytes stand for them.
        checksum=checksum.value if table.format == "arrow" else file.hash.hexdigest(),
        expected={name: _plain(figure) for name, figure in expected.items()},
    )


def parts(table: DataTable, units: Mapping[str, int], seed: int, copy: int) -> Iterator[TablePart]:
    """The parts of a table, in order."""
    number = int.from_bytes(hashlib.sha256(table.name.encode()).digest()[:4])
    step = table.units_per_part
    for index, start in enumerate(range(0, units[table.name], step)):
        yield TablePart(
            index=index,
            start=start,
            units=min(step, units[table.name] - start),
            total=units,
            draws=Draws(seed, number, copy, index),
        )


@contextlib.contextmanager
def _sink(table: DataTable, file: _HashedFile) -> Iterator[Callable[[Columns], None]]:
    """What writes columns to a file, as Arrow or as CSV."""
    import pyarrow as pa
    import pyarrow.csv

    target = pa.PythonFile(file, mode="w")
    if table.format == "csv":
        schema = _text_schema(table.schema())
        with pyarrow.csv.CSVWriter(target, schema) as writer:
            yield lambda columns: writer.write_batch(_as_text(to_batch(columns, table.schema()), schema))
        return
    with pa.ipc.new_file(target, table.schema()) as tables:
        yield lambda columns: tables.write_batch(to_batch(columns, table.schema()))


def _text_schema(schema: pa.Schema) -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            pa.field(each.name, pa.string() if pa.types.is_fixed_size_binary(each.type) else each.type)
            for each in schema
        ]
    )


def _as_text(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Fixed-width bytes as strings without the blanks that pad them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = [
        pc.utf8_rtrim(column.cast(pa.binary()).cast(pa.string()), characters=" ")
        if pa.types.is_fixed_size_binary(column.type)
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _plain(figure: object) -> object:
    """A figure as JSON has it; floats keep all their digits."""
    return figure.tolist() if isinstance(figure, np.ndarray | np.generic) else figure


def main() -> None:
    """Serve requests until stdin ends."""
    die_with_parent(int(sys.argv[1]))
    from gridwright.workload.datasets.catalogue import TABLES

    for line in sys.stdin:
        request = decode(line, TableRequest)
        path = Path(request.path)
        try:
            # LIBRARY/HOME/SET/COPY/TABLE: from the library on, other users may write.
            with opened_below(path.parents[3], path.parts[-4:-1], make=True) as directory:
                made = write_table(
                    TABLES[request.table],
                    Path(descriptor_path(directory)) / path.name,
                    units=request.units,
                    seed=request.seed,
                    copy=request.copy,
                )
            answer = TableAnswer(made)
        except GridwrightError as error:
            answer = TableAnswer(error=str(error), path=str(path))
        except OSError as error:
            answer = TableAnswer(error=error.strerror or str(error), path=str(path))
        os.write(sys.stdout.fileno(), encode(answer) + b"\n")


if __name__ == "__main__":
    main()
