"""The computation tests and the memory test, on tables of a few thousand rows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from threadpoolctl import threadpool_limits

from gridwright.workload.datasets.table import Checksum, DataTable, to_batch
from gridwright.workload.datasets.tables import CENTRES, ITEMS, KINDS, LABELS, OBSERVATIONS, PERIODS, SERIES
from gridwright.workload.datasets.writer import parts, write_table
from gridwright.workload.launches.launch import Launch, WrongAnswer
from gridwright.workload.launches.program_request import TableFacts
from gridwright.workload.launches.traffic import LaunchTraffic
from gridwright.workload.messages import Made
from gridwright.workload.programs.program import Program, program_of
from gridwright.workload.programs.sampling import read_sample, write_result


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Threads of the linear algebra would only fight for the cores of a test machine."""
    with threadpool_limits(1):
        yield


NAMES = (
    "matrix",
    "reg",
    "logistic",
    "glm",
    "mixed",
    "forest",
    "boost",
    "cluster",
    "princomp",
    "forecast",
    "optimize",
)
TABLES = {table.name: table for table in (OBSERVATIONS, SERIES, ITEMS)}
# More rows than one block has, so that programs meet a second one; and not all of them are kept.
UNITS = {"observations": 12_000, "series": 200, "items": 2}
SETTINGS = {
    "matrix_rows": 3000,
    "matrix_columns": 100,
    "reg_rows": 5000,
    "reg_candidates": 16,
    "logistic_rows": 3000,
    "glm_rows": 1000,
    "glm_tests": 6,
    "mixed_rows": 1500,
    "forest_rows": 2500,
    "forest_trees": 15,
    "boost_rows": 2500,
    "boost_rounds": 25,
    "cluster_rows": 4000,
    "cluster_most": 7,
    "princomp_rows": 4000,
    "princomp_resamples": 20,
    "forecast_arimas": 9,
    "forecast_weights": 3,
}
SEEDS = (0, 20_261_121, 2**63 - 1)


def program(name: str) -> Program:
    return program_of(name)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Mapping[int, Mapping[str, TableFacts]]:
    """Facts of all tables, by seed."""
    found = {}
    for seed in SEEDS:
        directory = tmp_path_factory.mktemp("data")
        found[seed] = {
            name: facts(
                directory / name, write_table(table, directory / name, units=UNITS, seed=seed, copy=0)
            )
            for name, table in TABLES.items()
        }
    return found


def facts(path: Path, made: Made) -> TableFacts:
    return TableFacts(
        path=path, rows=made.rows, bytes_=made.bytes_, checksum=made.checksum, expected=made.expected
    )


def launch(
    directory: Path, tables: Mapping[str, TableFacts], settings: Mapping[str, int] | None = None
) -> Launch:
    return Launch(
        work=directory,
        util=directory,
        tables=tables,
        traffic=LaunchTraffic(LaunchTraffic.create()),
        cores=1,
        memory_bytes=1 << 30,
        settings=SETTINGS | dict(settings or {}),
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "seed", [SEEDS[0], *(pytest.param(each, marks=pytest.mark.thorough) for each in SEEDS[1:])]
)
def test_a_program_finds_its_answer_right(
    name: str, seed: int, made: Mapping[int, Mapping[str, TableFacts]], tmp_path: Path
) -> None:
    tested, tables = program(name), made[seed]
    run = launch(tmp_path, tables)
    tested.run(run)
    totals = run.traffic.totals()
    read = sum(tables[table].bytes_ for table in tested.tables)
    assert 0.95 * read < totals["data"].read_bytes <= read
    bound = sum(factor * tables[table].bytes_ for table, factor in tested.work.items())
    assert 0 < totals["work"].written_bytes <= 1.05 * bound + 10_000
    assert not totals["util"].written_bytes


@pytest.mark.few(4)
@pytest.mark.parametrize("name", NAMES)
def test_a_single_changed_value_is_found(
    name: str, made: Mapping[int, Mapping[str, TableFacts]], tmp_path: Path
) -> None:
    tested = program(name)
    table = TABLES[tested.tables[0]]
    original = made[SEEDS[0]][table.name]
    # A column that the program has no use for, in the last row: the fit alone could not tell.
    column = {"observations": "y_mixed" if name != "mixed" else "y_gamma", "series": "value", "items": "plan"}
    changed = tmp_path / table.name
    shutil.copyfile(original.path, changed)
    change_last_value(table, changed, column[table.name])
    tables = {table.name: replace(original, path=changed)}
    with pytest.raises(WrongAnswer, match="checksum"):
        tested.run(launch(tmp_path, tables, {"forecast_arimas": 1}))


def change_last_value(table: DataTable, path: Path, column: str) -> None:
    """Change the last bit of the last value of a column, where it lies in the file."""
    before = last_values(path, column)
    content = path.read_bytes()
    place = content.rindex(before) + len(before) - np.dtype(table.columns[column]).itemsize
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    after = last_values(path, column)
    assert sum(one != other for one, other in zip(before, after, strict=True)) == 1


def last_values(path: Path, column: str) -> bytes:
    with pa.ipc.open_file(path) as file:
        values = file.get_batch(file.num_record_batches - 1).column(column).to_numpy()
    assert isinstance(values, np.ndarray)
    return values.tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_a_program_says_what_it_mirrors(name: str) -> None:
    tested = program(name)
    text = tested.run.__doc__ or ""
    assert "PROC " in text.splitlines()[0]
    assert "I/O: " in text and "Check: " in text
    assert tested.name == name
    assert tested.class_ == ("memory" if name == "matrix" else "computation")
    assert set(tested.work) <= set(tested.tables) and not tested.util


@pytest.mark.parametrize(
    ("name", "table", "figure"),
    [
        ("matrix", "observations", "products"),
        ("reg", "observations", "complete_linear_x01"),
        ("logistic", "observations", "binary"),
        ("glm", "observations", "count"),
        ("mixed", "observations", "rows_by_group"),
        ("forest", "observations", "rows_by_label"),
        ("cluster", "observations", "rows_by_cluster"),
        ("forecast", "series", "sum_by_kind"),
        ("optimize", "items", "knapsack_optimum"),
        ("optimize", "items", "linear_optimum"),
    ],
)
def test_an_answer_is_held_against_the_manifest(
    name: str, table: str, figure: str, made: Mapping[int, Mapping[str, TableFacts]], tmp_path: Path
) -> None:
    right = made[SEEDS[0]][table]
    wrong = (np.array(right.expected[figure]) * 1.001 + 1).tolist()
    tables = {table: replace(right, expected=dict(right.expected) | {figure: wrong})}
    # Rows by cluster are exact only where all rows are kept.
    settings = {"cluster_rows": 12_000, "forecast_arimas": 1}
    with pytest.raises(WrongAnswer):
        program(name).run(launch(tmp_path, tables, settings))


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_a_part_is_what_its_names_and_types_say(table: DataTable) -> None:
    first, *_ = parts(table, UNITS, 7, 0)
    columns = table.make(first)
    assert list(columns) == list(table.columns)
    assert {name: f"{values.dtype.kind}{values.dtype.itemsize}" for name, values in columns.items()} == dict(
        table.columns
    )
    batch = to_batch(columns, table.schema())
    assert batch.num_rows == first.units * table.rows_per_unit
    again = table.make(next(iter(parts(table, UNITS, 7, 0))))
    assert all(values.tobytes() == again[name].tobytes() for name, values in columns.items())


@pytest.mark.parametrize(
    ("name", "checksum"),
    [
        ("observations", "68db793b58706706"),
        ("series", "f550605a157cc71c"),
        ("items", "aef03a4b476872ad"),
    ],
)
def test_a_table_is_the_same_bytes_as_ever(name: str, checksum: str) -> None:
    """A data set that is made again, elsewhere or later, is to be the same: so say checksums of one part."""
    found = Checksum()
    found.add_mapping(TABLES[name].make(next(iter(parts(TABLES[name], UNITS, 11, 1)))))
    assert found.value == checksum


def test_the_plan_and_the_prices_of_a_linear_program_prove_each_other(
    made: Mapping[int, Mapping[str, TableFacts]],
) -> None:
    for tables in made.values():
        expected = tables["items"].expected
        assert expected["linear_optimum"] == expected["linear_bound"]


def test_what_is_expected_adds_up(made: Mapping[int, Mapping[str, TableFacts]]) -> None:
    for tables in made.values():
        expected = tables["observations"].expected
        assert sum(expected["rows_by_label"]) == sum(expected["rows_by_cluster"]) == UNITS["observations"]
        assert sum(expected["rows_by_group"]) == UNITS["observations"]
        assert (len(expected["rows_by_label"]), len(expected["rows_by_cluster"])) == (LABELS, len(CENTRES))
        assert tables["series"].expected["rows_by_kind"] == [UNITS["series"] * PERIODS // KINDS] * KINDS


@pytest.mark.parametrize("limit", [1, 7, 4999, 6000, 11_999, 12_000, 10**6])
def test_a_sample_is_every_so_manieth_row(
    limit: int, made: Mapping[int, Mapping[str, TableFacts]], tmp_path: Path
) -> None:
    rows = read_sample(launch(tmp_path, made[SEEDS[0]]), "observations", ("id",), limit)[:, 0]
    step = -(-UNITS["observations"] // limit)
    assert rows.tolist() == list(range(0, UNITS["observations"], step))
    assert len(rows) <= limit


def test_a_result_is_written_whole(made: Mapping[int, Mapping[str, TableFacts]], tmp_path: Path) -> None:
    run = launch(tmp_path, made[SEEDS[0]])
    columns = {"number": np.arange(300_000), "half": np.arange(300_000) / 2}
    write_result(run, "result", columns)
    found = pa.Table.from_batches(list(run.reread("result")))
    assert found.num_rows == 300_000
    assert found.schema.types == [pa.int64(), pa.float64()]
    assert all((found.column(name).to_numpy() == values).all() for name, values in columns.items())
