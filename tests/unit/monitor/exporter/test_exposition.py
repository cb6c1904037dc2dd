"""What is written can be read back as it was: names, labels of any bytes, and numbers."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.monitor.exporter.exposition import Exposition, SeriesValue, TextFormat, number
from gridwright.monitor.exporter.metric_families import (
    NOT_TOLD,
    OF_EXPORTER,
    OF_READINGS,
    MetricFamily,
    known_series,
)
from gridwright.monitor.exporter.server import text_format, wants_gzip
from gridwright.monitor.readings import LABELS

COUNTER = MetricFamily(
    "gridwright_x_bytes", 'Says "what" it is.\nA \\ too.', ("job", "mountpoint"), is_counter=True
)
LINE = re.compile(r"^([a-z_0-9]+)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'([a-z_]+)="((?:\\.|[^"\\])*)"(?:,|$)')


def text(format_: TextFormat, *points: SeriesValue, family: MetricFamily = COUNTER) -> str:
    return b"".join(Exposition(format_).family(family, points)).decode()


def read(line: str) -> tuple[str, dict[str, str], float]:
    """A line as the specification reads it; written apart from what writes it."""
    found = LINE.match(line)
    assert found, line
    labels, end = {}, 0
    for each in LABEL.finditer(found[2] or ""):
        assert each.start() == end
        end = each.end()
        labels[each[1]] = re.sub(r"\\(.)", lambda one: "\n" if one[1] == "n" else one[1], each[2])
    assert end == len(found[2] or "")
    return found[1], labels, float(found[3])


def test_openmetrics_has_type_unit_help_and_beginning() -> None:
    assert text(TextFormat.OPENMETRICS, SeriesValue(("17", "/data"), 5, 1.7e9)) == (
        "# TYPE gridwright_x_bytes counter\n"
        "# UNIT gridwright_x_bytes bytes\n"
        '# HELP gridwright_x_bytes Says \\"what\\" it is.\\nA \\\\ too.\n'
        'gridwright_x_bytes_total{job="17",mountpoint="/data"} 5\n'
        'gridwright_x_bytes_created{job="17",mountpoint="/data"} 1700000000\n'
    )


def test_the_plain_text_names_its_series_and_has_no_beginnings() -> None:
    assert text(TextFormat.PLAIN, SeriesValue(("17", ""), 5, 1.7e9)) == (
        '# HELP gridwright_x_bytes_total Says "what" it is.\\nA \\\\ too.\n'
        "# TYPE gridwright_x_bytes_total counter\n"
        'gridwright_x_bytes_total{job="17"} 5\n'
    )


def test_a_beginning_by_a_clock_that_does_not_count_from_1970_is_none() -> None:
    assert "_created" not in text(TextFormat.OPENMETRICS, SeriesValue(("17", "/"), 5, 86_400.0))


def test_facts_are_an_info_in_one_and_a_gauge_in_the_other() -> None:
    facts = MetricFamily("gridwright_node", "Facts.", ("node",), is_info=True)
    assert "# TYPE gridwright_node info\n" in text(
        TextFormat.OPENMETRICS, SeriesValue(("a",), 1), family=facts
    )
    plain = text(TextFormat.PLAIN, SeriesValue(("a",), 1), family=facts)
    assert "# TYPE gridwright_node_info gauge\n" in plain
    assert plain.endswith('gridwright_node_info{node="a"} 1\n')


def test_a_family_without_series_is_not_told() -> None:
    assert text(TextFormat.OPENMETRICS) == ""


@given(st.text(st.characters(exclude_categories=[])), st.binary(), st.floats(allow_nan=False) | st.integers())
def test_any_name_is_one_line_that_reads_back(job: str, point: bytes, value: float) -> None:
    mount = point.decode("utf-8", "surrogateescape")
    written = text(TextFormat.PLAIN, SeriesValue((job, mount), value))
    line = written.split("\n")[2]
    assert written.endswith(line + "\n")
    assert written.count("\n") == 3
    name, labels, read_value = read(line)
    assert name == "gridwright_x_bytes_total"
    assert read_value == pytest.approx(float(value), rel=1e-15)
    for label, original in (("job", job), ("mountpoint", mount)):
        shown = labels.get(label, "")
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f]", shown)
        if original.isascii() and original.isprintable():
            assert shown == original


def test_bytes_that_are_no_text_are_told_apart() -> None:
    mounts = [each.decode("utf-8", "surrogateescape") for each in (b"/\xff", b"/\xfe", b"/\r", b"/\0")]
    written = text(TextFormat.PLAIN, *(SeriesValue(("", each), 1) for each in mounts))
    shown = [read(line)[1]["mountpoint"] for line in written.splitlines()[2:]]
    assert shown == ["/\\xff", "/\\xfe", "/\\x0d", "/\\x00"]


def test_what_would_be_the_same_series_twice_is_left_out_and_counted() -> None:
    page = Exposition(TextFormat.PLAIN)
    points = [SeriesValue((job, ""), 1) for job in ("\udcff", "\\xff", "\udcff")]
    written = b"".join(page.family(COUNTER, points)).decode()
    assert len(written.splitlines()) == 3
    assert page.left_out == 2


def test_a_family_has_a_bounded_number_of_series() -> None:
    page = Exposition(TextFormat.PLAIN)
    size = sum(map(len, page.family(COUNTER, (SeriesValue((str(each), ""), 1) for each in range(50_010)))))
    assert page.left_out == 10
    assert size < 5_000_000


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
        (5.0, "5"),
        (0.1, "0.1"),
        (2**63, str(2**63)),
    ],
)
def test_numbers_are_those_of_the_formats(value: float, written: str) -> None:
    assert number(value) == written


def test_every_reading_has_a_family_with_a_name_of_its_own() -> None:
    assert set(OF_READINGS) == {metric for metric, labels in LABELS.items() if not NOT_TOLD & {*labels}}
    names = [each.name for each in (*OF_READINGS.values(), *OF_EXPORTER)]
    assert len(names) == len(set(names))
    for name in known_series():
        assert re.fullmatch("(gridwright|lustre|recovery)_[a-z0-9_]+", name)


def test_no_name_is_one_of_node_exporter() -> None:
    assert [each for each in known_series() if each.startswith("node_")] == []


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", TextFormat.PLAIN),
        ("*/*", TextFormat.PLAIN),
        ("text/html,*/*;q=0.8", TextFormat.PLAIN),
        # Prometheus 2.42, and VictoriaMetrics 1.79.
        (
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
            "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            TextFormat.OPENMETRICS,
        ),
        ("text/plain;version=0.0.4;q=1,*/*;q=0.1", TextFormat.PLAIN),
        ("application/openmetrics-text;q=0", TextFormat.PLAIN),
        ("application/openmetrics-text;q=0.2, text/plain;q=0.9", TextFormat.PLAIN),
        ("Application/OpenMetrics-Text", TextFormat.OPENMETRICS),
        ("application/openmetrics-text;q=nonsense", TextFormat.PLAIN),
    ],
)
def test_who_asks_gets_the_format_that_it_likes_best(accept: str, expected: TextFormat) -> None:
    assert text_format(accept) is expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [("", False), ("gzip", True), ("gzip;q=0", False), ("*", True), ("br", False), ("gzip;q=0,*", False)],
)
def test_it_is_packed_where_that_is_asked_for(header: str, expected: bool) -> None:
    assert wants_gzip(header) is expected


@given(st.text())
def test_any_header_has_an_answer(header: str) -> None:
    assert text_format(header) in TextFormat
    assert wants_gzip(header) in {True, False}
