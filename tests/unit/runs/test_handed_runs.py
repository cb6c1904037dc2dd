"""Runs that somebody else hands over: whatever they hold, commands show them or say what is wrong.

Nothing is written outside, no link is followed, memory is bounded, and no traceback comes.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gridwright.errors import GridwrightError
from gridwright.report.page import write_report
from gridwright.report.terminal.run import comparison_text, run_text, runs_text
from gridwright.report.verdict import is_summed_up
from gridwright.runs.compare import compare_runs
from gridwright.runs.directory import list_runs, load_run, look_at_run, remove_leavings, remove_run
from gridwright.runs.records import figures_of
from tests.support.as_user import MALLORY
from tests.support.bounded_memory import in_bounded_memory
from tests.support.examples import examples
from tests.support.forked import called
from tests.support.records import finished_run, launch_record, measured_run, workload_record

LEAVES: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, -1, 2**63, 10**40, 10**400, 1e308, -1e308, 1e-320, 4102444800, 2**31])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(
        ["", "../../etc/passwd", "\x1b]52;c;x\x07", "<img src=x onerror=alert(1)>", "[/x]", "write"]
    )
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
)
FILES = ("run.json", "iotest.json", "workload.json", "sweep.json", "samples.parquet", "launches.parquet")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with all parts, which tests spoil copies of."""
    path = finished_run(tmp_path_factory.mktemp("template"))
    launches = [launch_record(number, f"test{number}") for number in (1, 2, 3)]
    (path / "workload.json").write_text(workload_record(launches).model_dump_json(by_alias=True))
    return path


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to each value in a document."""
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [way, *(found for key, each in inner for found in places(each, (*way, key)))]


def spoilt(document: Any, way: tuple[Any, ...], value: Any) -> Any:
    """The document with another value at one place."""
    if not way:
        return value
    made = json.loads(json.dumps(document))
    inner = made
    for key in way[:-1]:
        inner = inner[key]
    inner[way[-1]] = value
    return made


def look_at(path: Path) -> None:
    """All that commands do with a run: a result comes, or a GridwrightError."""

    def shown() -> None:
        loaded = load_run(path, with_samples=False)
        with figures_of(path):
            run_text(loaded)

    def compared() -> None:
        one, other = load_run(path), load_run(path)
        with figures_of(path):
            comparison_text(one, other, compare_runs(one, other))

    def listed() -> None:
        runs_text([each for each in list_runs(path.parent) if is_summed_up(each)], datetime.now(UTC))

    for act in (shown, compared, listed, lambda: write_report(path)):
        try:
            act()
        except GridwrightError as error:
            assert str(error)


BOUNDED = settings(
    max_examples=examples(400),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)


@BOUNDED
@given(data=st.data())
def test_any_value_in_any_record(template: Path, tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "run"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(template, path)
    for _ in range(data.draw(st.integers(1, 3))):
        file = path / data.draw(st.sampled_from(["run.json", "iotest.json", "workload.json"]))
        document = json.loads(file.read_text())
        way = data.draw(st.sampled_from(places(document)))
        file.write_text(json.dumps(spoilt(document, way, data.draw(VALUES))))
    look_at(path)


@BOUNDED
@given(data=st.data())
def test_any_bytes_in_any_file(template: Path, tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "run"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(template, path)
    file = path / data.draw(st.sampled_from(FILES))
    content = bytearray(file.read_bytes() if file.exists() else b"{}")
    if data.draw(st.booleans()) and content:
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        del content[data.draw(st.integers(0, len(content))) :]
    else:
        content = bytearray(data.draw(st.binary(max_size=200)))
    file.write_bytes(content)
    look_at(path)


@BOUNDED
@given(data=st.data())
def test_any_line_in_a_journal(tmp_path: Path, data: st.DataObject) -> None:
    shutil.rmtree(tmp_path / "runs", ignore_errors=True)
    run = measured_run(tmp_path / "runs")
    run._journal.close()
    file = run.path / "journal.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for _ in range(data.draw(st.integers(1, 3))):
        number = data.draw(st.integers(0, len(lines) - 1))
        way = data.draw(st.sampled_from(places(lines[number])))
        lines[number] = spoilt(lines[number], way, data.draw(VALUES))
    deep = [b"[" * 100_000] if data.draw(st.booleans()) else []
    file.write_bytes(b"\n".join([*(json.dumps(each).encode() for each in lines), *deep]) + b"\n")
    look_at(run.path)


COLUMNS = st.sampled_from(
    ["time", "node", "library", "op", "elapsed_s", "interval_s", "read_bytes", "written_bytes", "else"]
)
CELLS: st.SearchStrategy[pa.Array] = st.one_of(
    st.lists(st.floats(), min_size=3, max_size=3).map(lambda cells: pa.array(cells, pa.float64())),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=3, max_size=3).map(
        lambda cells: pa.array(cells, pa.int64())
    ),
    st.lists(st.text(max_size=5) | st.none(), min_size=3, max_size=3).map(
        lambda cells: pa.array(cells, pa.string())
    ),
    st.lists(st.binary(max_size=5), min_size=3, max_size=3).map(lambda cells: pa.array(cells, pa.binary())),
    st.just(pa.array([[1], [2], [3]])),
    st.just(pa.array([{"a": 1}] * 3)),
    st.just(pa.array([1, 2, 3], pa.timestamp("ns"))),
)


@BOUNDED
@given(columns=st.dictionaries(COLUMNS, CELLS, min_size=1))
def test_any_table_of_samples(template: Path, tmp_path: Path, columns: dict[str, pa.Array]) -> None:
    path = tmp_path / "run"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(template, path)
    pq.write_table(pa.table(columns), path / "samples.parquet")
    look_at(path)


@pytest.mark.parametrize("file", [*FILES, "report.html", "journal.jsonl"])
@pytest.mark.parametrize("put", ["link", "pipe", "directory", "device"])
def test_a_file_that_is_none(template: Path, tmp_path: Path, file: str, put: str) -> None:
    path = tmp_path / "run"
    shutil.copytree(template, path)
    (path / file).unlink(missing_ok=True)
    outside = tmp_path / "outside"
    outside.write_text(json.dumps({"mine": "secret"}))
    if put == "link":
        (path / file).symlink_to(outside)
    elif put == "pipe":
        os.mkfifo(path / file)
    elif put == "directory":
        (path / file).mkdir()
    else:
        (path / file).symlink_to("/dev/zero")
    look_at(path)
    assert outside.read_text() == json.dumps({"mine": "secret"})


def repeated_text(rows: int, letters: int) -> bytes:
    """A small Parquet file of a text that is repeated: it is written once, and read often."""
    buffer = io.BytesIO()
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), ["x" * letters])
    pq.write_table(pa.table({"node": texts}), buffer, compression="zstd")
    return buffer.getvalue()


def zeros(rows: int) -> bytes:
    buffer = io.BytesIO()
    with pq.ParquetWriter(buffer, pa.schema([("time", pa.float64())]), compression="zstd") as writer:
        for _ in range(rows // 1_000_000):
            writer.write_table(pa.table({"time": pa.array([0.0]).take(pa.array([0] * 1_000_000))}))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("run.json", lambda: b'{"a":[' + b"[]," * 6_000_000 + b"[]]}"),
        ("iotest.json", lambda: b'{"a":[' + b"0," * 20_000_000 + b"0]}"),
        ("workload.json", lambda: b" " * (300 << 20)),
        ("samples.parquet", lambda: zeros(6_000_000)),
        ("samples.parquet", lambda: repeated_text(200_000, 1 << 20)),
    ],
)
def test_what_takes_much_memory_is_refused_and_says_the_limit(
    template: Path, tmp_path: Path, file: str, content: Callable[[], bytes]
) -> None:
    path = tmp_path / "run"
    shutil.copytree(template, path)
    (path / file).write_bytes(content())
    said = in_bounded_memory(lambda: load_run(path), 3 << 30)
    assert "GridwrightError" in said, said
    assert "limit" in said, said


@pytest.mark.parametrize(
    "verb", [["runs", "show"], ["report"], ["runs", "compare", "last"], ["runs", "list", "--runs"]]
)
def test_the_command_says_what_is_wrong_and_no_traceback(
    template: Path, tmp_path: Path, verb: list[str]
) -> None:
    runs = tmp_path / "runs"
    for name, file, content in (
        ("a", "iotest.json", b"[" * 100_000),
        ("b", "samples.parquet", b"PAR1" + b"\0" * 100 + b"PAR1"),
        ("c", "run.json", b'{"schema":1e999}'),
        ("d", "journal.jsonl", b"[" * 100_000 + b"\n"),
    ):
        path = runs / name
        shutil.copytree(template, path)
        (path / file).write_bytes(content)
        arguments = [*verb, str(runs if "list" in verb else path)]
        with (tmp_path / "out").open("wb") as out:
            status = called(arguments, tmp_path, stdout=out.fileno(), errors=tmp_path / "errors")
        said = (tmp_path / "errors").read_text()
        assert "Traceback" not in said
        assert status in {0, 1, 2, 3}
        assert status == 0 or said.startswith("error: ")


class _Attributes(HTMLParser):
    """Collects what a page could do by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.risky: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note elements and attributes that load, run or lead somewhere."""
        for name, value in attrs:
            if name.startswith("on") or (name in {"href", "src"} and (value or "")[:1] not in {"#", "d"}):
                self.risky.append(f"{tag} {name}={value}")
        if tag in {"img", "iframe", "object", "form"}:
            self.risky.append(tag)


HTML = "</script></title><img src=x onerror=alert(1)><a href='javascript:alert(1)'>here</a>"


def with_html(value: Any) -> Any:
    """The same with HTML behind each text that is free."""
    if isinstance(value, dict):
        return {key: with_html(each) for key, each in value.items()}
    if isinstance(value, list):
        return [with_html(each) for each in value]
    return value + HTML if isinstance(value, str) else value


def test_html_in_names_is_text_in_the_report(template: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"
    shutil.copytree(template, path)
    fixed = {"status", "level", "op", "command", "class", "grade", "engine", "bound_by", "method", "started"}
    for file in ("run.json", "iotest.json", "workload.json"):
        document = json.loads((path / file).read_text())
        for way in places(document):
            value = document
            for key in way:
                value = value[key]
            if (
                isinstance(value, str)
                and way[-1] not in fixed
                and not (file == "run.json" and "finished" in way)
            ):
                changed = spoilt(document, way, value + HTML)
                (path / file).write_text(json.dumps(changed))
                try:
                    load_run(path)
                except GridwrightError:
                    continue
                document = changed
        (path / file).write_text(json.dumps(document))
    samples = pq.read_table(path / "samples.parquet")
    for column in ("library", "op", "node"):
        at = samples.schema.get_field_index(column)
        texts = [f"{each}{HTML}" for each in samples.column(column).to_pylist()]
        samples = samples.set_column(at, column, pa.array(texts))
    pq.write_table(samples, path / "samples.parquet")
    page = write_report(path).read_text()
    assert "onerror=alert(1)" in page
    found = _Attributes()
    found.feed(re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL))
    assert found.risky == []
    charts = re.search(r'id="chart-data">(.*?)</script>', page, re.DOTALL)
    assert charts is not None
    # plotly reads a little HTML in its labels.
    assert "<img" not in json.dumps(json.loads(charts[1]))
    assert "<a " not in json.dumps(json.loads(charts[1]))


def test_removal_follows_no_link(template: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "run.json").write_text("mine")
    runs = tmp_path / "runs"
    path = runs / "run"
    shutil.copytree(template, path)
    (path / "logs").rmdir()
    (path / "logs").symlink_to(outside)
    assert look_at_run(path, datetime.now(UTC)).kept is not None
    (runs / ".run.removed").symlink_to(outside)
    (runs / ".file.removed").write_text("a file")
    with pytest.raises(GridwrightError, match="cannot be removed"):
        remove_run(path)
    remove_leavings(runs)
    assert (outside / "run.json").read_text() == "mine"


def plant_links(run: Path, outside: Path, first: int) -> None:
    """What mallory does in her run, while root looks at it: all names that a report may be written under."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(MALLORY, MALLORY, MALLORY)
            os.setresuid(MALLORY, MALLORY, MALLORY)
            (run / "report.html").symlink_to(outside)
            for pid in range(first, first + 500):
                (run / f".report.html.{pid}.part").symlink_to(outside)
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def test_root_writes_a_report_into_a_run_of_mallory_and_nowhere_else(template: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        outside = Path(place) / "outside"
        outside.write_text("of root")
        path = Path(place) / "run"
        shutil.copytree(template, path)
        Path(place).chmod(0o755)
        (path / "report.html").unlink(missing_ok=True)
        for each in (path, *path.iterdir()):
            os.chown(each, MALLORY, MALLORY)
        plant_links(path, outside, os.getpid())
        assert (path / "report.html").is_symlink()
        with (Path(place) / "out").open("wb") as out:
            status = called(
                ["report", str(path)], Path(place), stdout=out.fileno(), errors=Path(place) / "errors"
            )
        assert status == 0, (Path(place) / "errors").read_text()
        assert outside.read_text() == "of root"
        assert not (path / "report.html").is_symlink()
