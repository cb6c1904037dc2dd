"""Matrices: those that come with Gridwright, other numbers of streams, and wrong ones."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.errors import GridwrightError
from gridwright.workload.matrix import BUILT_IN, MATRIX, Matrix, MatrixEntry, load_matrix, parse_matrix
from gridwright.workload.options import check_cores
from gridwright.workload.programs.program import TEST_NAMES

GOOD = "name: own\nstreams:\n  - [sort]\n"


def count_tests(matrix: Matrix) -> Counter[str | None]:
    return Counter(entry.test for stream in matrix.streams for entry in stream)


def problems_of(text: str) -> list[str]:
    with pytest.raises(GridwrightError) as caught:
        parse_matrix(text, "own.yaml")
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("name", "launches", "streams"), [("quick", 19, 2), ("mixed-30", 101, 30), ("mixed-20", 77, 20)]
)
def test_a_built_in_matrix_has_the_published_size(name: str, launches: int, streams: int) -> None:
    matrix = load_matrix(name)
    assert (matrix.name, matrix.launches, len(matrix.streams)) == (name, launches, streams)
    assert matrix.description


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_test_occurs_in_every_built_in_matrix(name: str) -> None:
    assert set(count_tests(load_matrix(name))) == set(TEST_NAMES)
    assert len(TEST_NAMES) == 19


def test_quick_has_each_test_once() -> None:
    assert set(count_tests(load_matrix("quick")).values()) == {1}


@pytest.mark.parametrize("name", ["mixed-30", "mixed-20"])
def test_no_test_of_a_mixed_matrix_is_rare(name: str) -> None:
    counts = count_tests(load_matrix(name)).values()
    assert max(counts) - min(counts) <= 2


matrices = st.lists(
    st.lists(
        st.sampled_from(TEST_NAMES).map(lambda name: MatrixEntry(test=name)), min_size=1, max_size=4
    ).map(tuple),
    min_size=1,
    max_size=12,
).map(lambda streams: Matrix(name="own", streams=tuple(streams)))


@given(matrices, st.integers(min_value=1, max_value=12))
def test_fewer_streams_lose_no_launch(matrix: Matrix, count: int) -> None:
    fewer = matrix.with_streams(min(count, len(matrix.streams)))
    assert len(fewer.streams) == min(count, len(matrix.streams))
    assert all(fewer.streams)
    assert count_tests(fewer) == count_tests(matrix)


@given(matrices, st.integers(min_value=0, max_value=30))
def test_more_streams_repeat_the_launches_in_turn(matrix: Matrix, more: int) -> None:
    have = len(matrix.streams)
    wide = matrix.with_streams(have + more)
    assert len(wide.streams) == have + more
    assert all(stream == matrix.streams[number % have] for number, stream in enumerate(wide.streams))


@given(matrices)
def test_one_stream_runs_all_launches_and_the_same_number_changes_nothing(matrix: Matrix) -> None:
    (only,) = matrix.with_streams(1).streams
    assert list(only) == [entry for stream in matrix.streams for entry in stream]
    assert matrix.with_streams(len(matrix.streams)) == matrix


def test_a_launch_is_a_name_or_a_mapping() -> None:
    matrix = parse_matrix(
        "name: own\ncopies: 2\nstreams:\n"
        "  - [sort, {test: merge, memory: 1GiB, time_limit: 2m, cores: 3}]\n"
        "  - [{command: [echo, 'a b', \"c\\nd\"], name: hello}]\n",
        "own.yaml",
    )
    (sort, merge), (hello,) = matrix.streams
    assert (sort.test, sort.memory, sort.label) == ("sort", None, "sort")
    assert (merge.memory, merge.time_limit, merge.cores) == (1 << 30, 120.0, 3)
    assert (hello.command, hello.label) == (("echo", "a b", "c\nd"), "hello")


def test_a_command_without_a_name_is_called_as_its_program() -> None:
    matrix = parse_matrix("name: own\nstreams: [[{command: [/opt/jobs/nightly.sh, -x]}]]\n", "own.yaml")
    assert matrix.streams[0][0].label == "nightly.sh"


OWN = "name: own\nstreams:"
WRONG = [
    (f"{OWN}\n  - [sort, jion]\n", "3:12: ", '"jion"', "Did you mean join?", "sort, "),
    ("name: own\nstrems: 1\nstreams: [[sort]]\n", "2:1: ", '"strems"', "Did you mean streams?"),
    (f"{OWN} [[{{test: sort, memry: 1GiB}}]]\n", "2:25: ", '"memry"', "Did you mean memory?"),
    (f"{OWN} [[{{test: sort, command: [ls]}}]]\n", "2:12: ", "either `test: NAME` or"),
    (f"{OWN} [[{{memory: 1GiB}}]]\n", "2:12: ", "either `test: NAME` or"),
    (f"{OWN} [[{{test: sort, name: mine}}]]\n", "2:12: ", "`name` goes with `command`"),
    (f"{OWN} [[{{test: sort, memory: 1 parsec}}]]\n", "2:33: ", "parsec"),
    (f"{OWN} [[{{test: sort, memory: 1kB}}]]\n", "2:33: ", "at least"),
    (f"{OWN} [[{{test: sort, time_limit: 0s}}]]\n", "2:37: "),
    (f"{OWN} [[{{test: sort, time_limit: soon}}]]\n", "2:37: ", "soon"),
    (f"{OWN} [[{{test: sort, cores: 0}}]]\n", "2:32: ", "0 is given"),
    (f"{OWN} [[{{command: []}}]]\n", "2:22: ", "the list is empty"),
    (f"{OWN} [[{{command: [sleep, 5]}}]]\n", "2:30: ", "5 is given", "put numbers in quotes"),
    (f"{OWN} []\n", "2:10: ", "the list is empty"),
    (f"{OWN} [[]]\n", "2:11: ", "the list is empty"),
    (f"{OWN} [[sort]]\ncopies: 0\n", "3:9: "),
    (f"{OWN} [[sort]]\nblock: 5000 B\n", "3:8: ", "5000 bytes is no block size", "a multiple of 4 KiB"),
    (f"{OWN} [[sort]]\nblock: 128MiB\n", "3:8: ", "from 4 KiB to 64 MiB"),
    ("name: -x/\nstreams: [[sort]]\n", "1:7: ", "at most 63"),
    ("streams: [[sort]]\n", "1:1: ", "name is missing"),
    ("name: own\n", "1:1: ", "streams is missing"),
    (f"{OWN} [[sort]\n", "2:"),
    ("- sort\n", "1:1: "),
    ("just text", "1:1: "),
]


@pytest.mark.parametrize("case", WRONG, ids=[case[0].split("streams:")[-1].strip() for case in WRONG])
def test_a_wrong_matrix_is_told_with_its_place(case: tuple[str, ...]) -> None:
    text, place, *words = case
    (problem,) = problems_of(text)
    assert problem.startswith(f"own.yaml:{place}")
    assert all(word in problem for word in words), problem


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n"])
def test_an_empty_matrix_is_called_that(text: str) -> None:
    (problem,) = problems_of(text)
    assert "own.yaml" in problem


def test_all_problems_are_told_at_once_in_the_order_of_the_file() -> None:
    problems = problems_of(
        "name: own\nstrems: 1\ncopies: 0\nstreams:\n  - [srot]\n"
        "  - [{test: sort, memory: x}, {command: [ls], cores: 0}]\n"
    )
    places = ["2:1", "3:9", "5:6", "6:27", "6:54"]
    assert [problem.split(": ")[0] for problem in problems] == [f"own.yaml:{place}" for place in places]


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"x" * (MATRIX.max_bytes + 1), "larger than 256 KiB"), (b"name: \xff\xfe\n", "is not UTF-8 text")],
)
def test_a_file_that_is_no_matrix(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "own.yaml"
    file.write_bytes(content)
    with pytest.raises(GridwrightError, match=words) as caught:
        load_matrix(str(file))
    assert (caught.value.problems[0].where or "").startswith(str(file))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mixed30", "did you mean mixed-30"),
        ("quik", "did you mean quick"),
        ("missing.yaml", "no such file"),
        ("/", "a directory, and a matrix is a file"),
    ],
)
def test_a_name_that_is_none(name: str, words: str) -> None:
    with pytest.raises(GridwrightError) as caught:
        load_matrix(name)
    assert words in str(caught.value.problems[0])


def test_a_good_file_is_loaded(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(GOOD)
    assert load_matrix(str(file)) == parse_matrix(GOOD, "own.yaml")


def test_a_launch_that_no_node_has_the_cores_for_is_named_once() -> None:
    text = "name: wide\nstreams:\n  - [sort]\n  - [sort, {command: [x], name: score, cores: 1000}]\n"
    matrix = parse_matrix(text, "wide.yaml").with_streams(4)
    (problem,) = check_cores(matrix, 8, "wide.yaml")
    assert problem.what == "launch score asks for 1000 cores, and no node has more than 8"
    assert (problem.where, problem.field) == ("wide.yaml", "streams.1.1.cores")
    assert problem.remedy == "write cores: 8, or fewer"
    assert check_cores(matrix, 1000, "wide.yaml") == []
