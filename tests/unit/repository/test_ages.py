"""How long ago files were used, and what their objects cost by storage class."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gridwright.catalog import load_catalog
from gridwright.repository.use_report import CLASSES, DAY_S, STANDARD, UseOfFiles, class_costs, use_of_files

NOW = time.time()


def made(directory: Path, name: str, size: int, days: float, written: float | None = None) -> Path:
    file = directory / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(bytes(size))
    os.utime(file, (NOW - days * DAY_S, NOW - (days if written is None else written) * DAY_S))
    return file


def used(directory: Path) -> UseOfFiles:
    return use_of_files(directory, now=NOW)


def test_files_are_counted_by_their_last_use(tmp_path: Path) -> None:
    for name, days, size in (
        ("a", 0.5, 1),
        ("b/c", 3, 20),
        ("d", 29, 300),
        ("e", 89, 4000),
        ("f", 300, 50000),
    ):
        made(tmp_path, name, size, days)
    made(tmp_path, "g", 600000, 1000)
    # Written today, and not read since: that is use. What is Gridwright's own, and no file, is none.
    made(tmp_path, "h", 2, 1000, written=0)
    made(tmp_path, ".gridwright/known.sqlite", 999, 0)
    made(tmp_path, ".gridwright-part-1", 999, 0)
    (tmp_path / "link").symlink_to("g")
    os.link(tmp_path / "g", tmp_path / "again")

    found = used(tmp_path)

    assert [(each.files, each.bytes) for each in found.classes] == [
        (2, 3), (1, 20), (1, 300), (1, 4000), (1, 50000), (1, 600000),
    ]  # fmt: skip
    assert (found.files, found.bytes) == (7, 654323)
    assert (found.bytes_older_than("90 days"), found.bytes_older_than("1 year")) == (650000, 600000)


def test_what_changed_is_told_by_a_time_that_nobody_sets_back(tmp_path: Path) -> None:
    old = made(tmp_path, "old", 10, 900)
    since = old.stat().st_ctime + 0.001
    while time.time() <= since:
        pass
    made(tmp_path, "new", 7, 900)

    found = use_of_files(tmp_path, changed_since=since, now=NOW)
    assert (found.changed_files, found.changed_bytes) == (1, 7)


def test_a_class_has_its_month_and_its_retrieval(tmp_path: Path) -> None:
    made(tmp_path, "hot", 1000, 1)
    made(tmp_path, "cold", 3000, 500)
    prices = {STANDARD: 2.0, "s3-standard-ia": 1.0, "s3-standard-ia-retrieval": 0.5}
    gib = 2**30

    standard, infrequent, *others = class_costs(used(tmp_path), prices.get)

    assert standard.usd_per_month == pytest.approx(4000 * 2 / gib)
    assert infrequent.usd_per_month == pytest.approx((1000 * 2 + 3000) / gib)
    assert infrequent.retrieval_usd == pytest.approx(3000 * 0.5 / gib)
    assert [each.usd_per_month for each in others] == [None] * 3


def test_every_class_has_prices_in_the_catalogue_and_a_colder_one_is_cheaper() -> None:
    usd = load_catalog().services.usd
    months = [usd(item, "us-east-1") for item in (STANDARD, *(item for item, _ in CLASSES))]
    back = [usd(f"{item}-retrieval", "us-east-1") for item, _ in CLASSES]

    assert None not in months
    assert None not in back
    assert months == sorted((each for each in months if each is not None), reverse=True)
