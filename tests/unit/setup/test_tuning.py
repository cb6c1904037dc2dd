"""The tuning table: every setting of the papers is in it or told why not, and formulas fit every node."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.errors import GridwrightError
from gridwright.filesystems import all_kinds
from gridwright.filesystems.kind import TuningKind
from gridwright.setup import tuning
from gridwright.setup.tuning import (
    KIND_WORDS,
    NodeSize,
    TuningRow,
    brought_kinds,
    desired_value,
    not_set,
    refuse_broken_tables,
    tuning_rows,
    tuning_text,
)
from gridwright.spec.model import GridSpec

GIB = 1 << 30

ROWS = {row.name: row for row in tuning_rows()}
FORMULAS = [row for row in tuning_rows() if row.formula is not None]
FACTS = [f"003.tun.{number:02}" for number in range(1, 72)] + [
    f"000.tun.{name}"
    for name in ("readcache", "dirty", "rpcs", "flock", "readahead", "sched", "thp", "fs", "mount", "selinux")
]


def facts_of(source: str) -> set[str]:
    return set(re.findall(r"00[03]\.tun\.\w+", source))


def test_names_are_of_one_row_each() -> None:
    assert len(ROWS) == len(tuning_rows()) >= 70
    assert len({each.name for each in not_set()}) == len(not_set())


@pytest.mark.parametrize("fact", FACTS)
def test_every_setting_of_the_papers_is_set_or_told_why_not(fact: str) -> None:
    sources = [row.source for row in tuning_rows()] + [each.source for each in not_set()]
    named = [source for source in sources if fact in facts_of(source)]
    assert named
    both = [row.name for row in tuning_rows() if fact in facts_of(row.source)]
    assert not (both and any(fact in facts_of(each.source) for each in not_set())), both


def test_no_row_names_a_fact_that_is_not_there() -> None:
    for source in [row.source for row in tuning_rows()] + [each.source for each in not_set()]:
        assert facts_of(source) <= set(FACTS), source


@pytest.mark.parametrize("row", tuning_rows(), ids=lambda row: row.name)
def test_a_row_says_why_and_where_from(row: TuningRow) -> None:
    assert len(row.reason) > 30
    assert row.reason.endswith(".")
    assert len(row.source) > 5
    assert row.roles
    # What may be missing on a node of today is said, not silently skipped.
    if row.kind == "sysfs" or row.since is not None:
        assert row.absent or row.kind in ("block", "lustre-client"), row.name


def test_sysctls_that_are_gone_are_not_asked_for() -> None:
    keys = {row.key for row in tuning_rows() if row.kind == "sysctl"}
    gone = {
        "kernel.sched_min_granularity_ns",
        "kernel.sched_wakeup_granularity_ns",
        "net.ipv4.tcp_low_latency",
        "net.ipv4.tcp_adv_win_scale",
        "sunrpc.udp_slot_table_entries",
    }
    assert not keys & gone
    assert gone <= {each.name for each in not_set()}


@given(memory=st.integers(4 * GIB, 4096 * GIB), cores=st.integers(1, 512), threads=st.sampled_from([1, 2]))
def test_formulas_stay_within_the_node(memory: int, cores: int, threads: int) -> None:
    size = NodeSize(memory, cores, cores * threads)
    values = {row.name: desired_value(row, size) for row in FORMULAS}
    for name, value in values.items():
        assert isinstance(value, int), name
        assert value > 0, name
    found = {name: int(str(value)) for name, value in values.items()}
    assert 5 <= found["sysctl-dirty-ratio"] <= 30
    assert found["sysctl-dirty-background-ratio"] < found["sysctl-dirty-ratio"]
    # Free pages: at least what drivers need, and never more than a fiftieth of memory.
    assert 64 * 1024 <= found["sysctl-min-free-kbytes"] <= min(GIB // 1024, memory // 1024 // 50)
    assert found["scale-page-pool-storage"] <= memory // 4
    assert found["scale-page-pool-compute"] <= memory // 4
    # Lustre has no more than half of memory for read-ahead, and no less than that of one file.
    assert found["lustre-read-ahead"] << 20 <= memory // 2
    assert found["lustre-read-ahead"] >= found["lustre-read-ahead-of-a-file"]
    assert found["lustre-max-dirty"] << 20 <= memory // 4
    # 10 KiB for each file that is cached.
    assert found["scale-files-cached-storage"] * 10240 <= memory // 8


def test_papers_nodes_get_what_the_papers_gave_them() -> None:
    compute, storage = NodeSize(320 * GIB, 24, 48), NodeSize(768 * GIB, 52, 104)
    assert desired_value(ROWS["scale-page-pool-compute"], compute) == 64 * GIB
    assert desired_value(ROWS["scale-page-pool-storage"], storage) == 128 * GIB
    assert desired_value(ROWS["scale-files-cached-compute"], compute) == 1_000_000
    assert desired_value(ROWS["scale-files-cached-storage"], storage) == 5_000_000
    assert desired_value(ROWS["sysctl-dirty-ratio"], NodeSize(192 * GIB, 24, 48)) == 30


def test_limits_fit_the_kernel_that_has_to_grant_them() -> None:
    assert int(str(ROWS["limit-nofile"].value)) <= int(str(ROWS["sysctl-nr-open"].value))
    assert int(str(ROWS["limit-nproc"].value)) <= int(str(ROWS["sysctl-pid-max"].value))
    changes, requests = ROWS["lustre-metadata-changes"].value, ROWS["lustre-metadata-requests"].value
    assert int(str(changes)) < int(str(requests))


def test_ports_of_commands_are_not_given_out_as_others() -> None:
    """The kernel hands out ports up to 60999 for outgoing connections (ip_local_port_range)."""
    low, high = str(ROWS["scale-command-ports"].value).split("-")
    assert 60999 < int(low) < int(high) < 65536


def test_every_kind_of_rows_is_set_by_the_role_that_it_names() -> None:
    roles = {path.name: path for path in Path(tuning.__file__).parents[1].rglob("roles/*") if path.is_dir()}
    used = {row.kind for row in tuning_rows()}
    assert used == {*KIND_WORDS, *brought_kinds()}
    for kind in brought_kinds().values():
        inside = [each for each in roles[kind.role].rglob("*") if each.parent.name != "__pycache__"]
        files = [each.read_text() for each in inside if each.is_file()]
        assert any(f"base_rows['{kind.name}']" in text for text in files), kind.name
        assert kind.words


@pytest.fixture
def tables_read_anew() -> Iterator[None]:
    def forget() -> None:
        for each in (tuning._tables, tuning_rows):
            each.cache_clear()

    forget()
    yield
    forget()


def spec_with(kind: str) -> GridSpec:
    fields = {"nfs": {"server": "nfs1", "export": "/x"}}.get(kind, {})
    return GridSpec.model_validate({"filesystems": {"one": {"type": kind, "path": "/grid", **fields}}})


ROW = (
    "  - {{name: {name}, kind: {kind}, key: k, value: 1, roles: [compute], reason: So it is., source: us}}\n"
)


def row_kind(name: str) -> TuningKind:
    return TuningKind(name=name, words="toy", command=lambda key: [key], value=lambda *_: None, role="toy")


@pytest.mark.parametrize(
    ("text", "kinds", "said"),
    [
        (
            ROW.format(name="toy-a", kind="toyish"),
            (),
            ["row toy-a: toyish is no kind of rows", "sysctl, sysfs"],
        ),
        (ROW.format(name="sysctl-swappiness", kind="mount"), (), ["there is a row of that name already"]),
        (ROW.format(name="toy-a", kind="mount") * 2, (), ["row toy-a: there is a row of that name already"]),
        (ROW.format(name="toy-a", kind="sysctl"), ("sysctl",), ["there is a kind of rows sysctl already"]),
        (ROW.format(name="toy-a", kind="scale"), ("scale",), ["there is a kind of rows scale already"]),
        (
            "  - {name: toy-a, kind: mount, roles: [head, tail]}\n  - 7\n",
            (),
            ["row toy-a: key: ", "row toy-a: roles.1: ", "row 7: Input"],
        ),
        ("", (), ["no line gridwright_tuning:"]),
        ("  - {", (), ["Error"]),
    ],
)
def test_a_table_that_is_wrong_hurts_only_specs_of_its_kind(
    text: str,
    kinds: tuple[str, ...],
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tables_read_anew: None,
) -> None:
    before, nfs = tuning_rows(), dict(all_kinds())["nfs"]
    tuning._tables.cache_clear()
    tuning_rows.cache_clear()
    monkeypatch.setattr(nfs, "tuning_table", lambda: f"gridwright_tuning:\n{text}")
    monkeypatch.setattr(nfs, "tuning_kinds", lambda: [row_kind(each) for each in kinds])
    assert {row.name for row in before} - {row.name for row in tuning_rows()} == {
        row.name for row in before if set(row.filesystems or ()) & {"nfs", "nfs4"}
    }
    assert "toy-a" not in tuning_text()
    refuse_broken_tables(spec_with("local"))
    with pytest.raises(GridwrightError) as refused:
        refuse_broken_tables(spec_with("nfs"))
    told = "\n".join(map(str, refused.value.problems))
    assert all(each in told for each in (*said, "file system type nfs")), told


def test_rows_of_a_kind_of_ones_own_are_read_whatever_their_indentation(
    monkeypatch: pytest.MonkeyPatch, tables_read_anew: None
) -> None:
    nfs = dict(all_kinds())["nfs"]
    monkeypatch.setattr(
        nfs, "tuning_table", lambda: "gridwright_tuning:\n" + ROW.format(name="toy-a", kind="toyish").strip()
    )
    monkeypatch.setattr(nfs, "tuning_kinds", lambda: [row_kind("toyish")])
    refuse_broken_tables(spec_with("nfs"))
    assert "\n  - {name: toy-a, kind: toyish" in tuning_text()
    assert [row.name for row in tuning_rows() if row.kind == "toyish"] == ["toy-a"]
