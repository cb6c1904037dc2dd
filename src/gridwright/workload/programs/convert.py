"""Mirrors a DATA step with INFILE and PUT: text in, rows filtered and derived, table and text out.

I/O: reads a CSV file from data in blocks; of the rows it keeps writes a table to work, and a CSV
file of a few columns to work, both as it goes along.
Check: rows and amounts of all rows, of those kept, and of the derived column, which were added
up before the text was made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridwright.workload.launches.launch import Launch
from gridwright.workload.programs.program import Program

if TYPE_CHECKING:
    import pyarrow as pa

    from gridwright.workload.counted_file import CountedFile

_BLOCK_BYTES = 4 << 20


def _run(launch: Launch) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv

    facts = launch.facts("extract")
    schema = pa.schema([(name, pa.int64()) for name in ("entry", "account", "day", "cents", "value")])
    sums = dict.fromkeys(("cents", "kept", "kept_cents", "kept_value_cents", "kept_days"), 0)
    rows = 0
    text = launch.open_file(facts.path, "r", "data")
    digest = _Digest(text)
    with (
        launch.write("entries", schema) as table,
        launch.open_file(launch.work / "entries.csv", "w", "work") as out,
        pyarrow.csv.CSVWriter(pa.PythonFile(out, mode="w"), _text_schema()) as lines,
    ):
        options = pyarrow.csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False)
        for batch in pyarrow.csv.open_csv(pa.PythonFile(digest, mode="r"), read_options=options):
            rows += batch.num_rows
            sums["cents"] += pc.sum(batch.column("amount_cents")).as_py() or 0
            kept = _valid_rows(batch)
            table.write(_derive(kept, schema), check=False)
            lines.write_batch(kept.select(_text_schema().names))
            for name, figure in _sums(kept).items():
                sums[name] += figure
    launch.check("rows of the extract", rows, facts.rows)
    launch.require("the extract is not the text that was generated", digest.hexdigest() == facts.checksum)
    for name, figure in sums.items():
        launch.check(f"{name} of the extract", figure, facts.expected[name])


def _valid_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    import pyarrow.compute as pc

    return batch.filter(
        pc.and_(pc.not_equal(batch.column("status"), "void"), pc.greater(batch.column("amount_cents"), 0))
    )


def _derive(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa
    import pyarrow.compute as pc

    value = pc.multiply(batch.column("amount_cents"), batch.column("quantity"))
    names = ("entry", "account", "day", "amount_cents")
    return pa.RecordBatch.from_arrays([*(batch.column(name) for name in names), value], schema=schema)


def _sums(batch: pa.RecordBatch) -> dict[str, int]:
    import pyarrow.compute as pc

    value = pc.multiply(batch.column("amount_cents"), batch.column("quantity"))
    return {
        "kept": batch.num_rows,
        "kept_cents": pc.sum(batch.column("amount_cents")).as_py() or 0,
        "kept_value_cents": pc.sum(value).as_py() or 0,
        "kept_days": pc.sum(batch.column("day")).as_py() or 0,
    }


def _text_schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            ("entry", pa.int64()),
            ("account", pa.int64()),
            ("amount_cents", pa.int64()),
            ("category", pa.string()),
            ("note", pa.string()),
        ]
    )


class _Digest:
    """Passes a file on and takes its SHA-256 on the way."""

    def __init__(self, file: CountedFile) -> None:
        import hashlib

        self._file = file
        self._hash = hashlib.sha256()

    @property
    def closed(self) -> bool:
        """Whether the file below is."""
        return bool(self._file.closed)

    def read(self, size: int = -1) -> bytes:
        """Read from the file below."""
        data = self._file.read(size)
        self._hash.update(data)
        return data

    def close(self) -> None:
        """Close the file below."""
        self._file.close()

    def hexdigest(self) -> str:
        """Of all that was read, shortened as the manifest has it."""
        return self._hash.hexdigest()


PROGRAM = Program(
    name="convert",
    class_="io",
    mirrors="DATA step with INFILE and PUT",
    engine="Arrow",
    tables=("extract",),
    run=_run,
    work={"extract": 1.1},
)
