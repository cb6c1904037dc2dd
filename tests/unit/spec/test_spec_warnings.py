"""Each finding appears when it should, names both cause and remedy, and can be silenced."""

from pathlib import Path

import pytest

from gridwright.errors import Finding
from gridwright.spec import all_findings, parse_spec, unsilenced, warn
from gridwright.spec.findings import KNOWN
from gridwright.spec.warnings import published_requirements

FULL = (
    "filesystems:\n  fast: {type: local, path: %s}\n  slow: {type: local, path: %s}\n"
    "libraries:\n  data: {filesystem: slow, requires: %s}\n"
    "  work: {filesystem: fast, requires: 125 MB/s/core}\n  util: {filesystem: %s, requires: 125 MB/s/core}\n"
)
THIRD = (
    "filesystems:\n  a: {type: local, path: /a}\n  b: {type: local, path: /b}\n  c: {type: local, path: /c}\n"
)
QUIET = THIRD + (
    "libraries:\n  data: {filesystem: a, requires: 100 MB/s/core}\n"
    "  work: {filesystem: b, requires: 125 MB/s/core}\n  util: {filesystem: c, requires: 125 MB/s/core}\n"
)
# Name of a finding, and a spec that has it.
HURTS = {
    "shared-disks": FULL % ("/fast", "/slow", "100 MB/s/core", "fast"),
    "no-requirement": QUIET.replace(", requires: 100 MB/s/core", ""),
    "unused-filesystem": QUIET.replace("filesystem: c", "filesystem: b"),
    "unusual-requirement": QUIET.replace("100 MB/s/core", "10 MB/s/core"),
    "missing-library": THIRD + "libraries:\n  work: {filesystem: a}\n",
    "overlapping-filesystems": QUIET.replace("path: /b", "path: /a/b"),
    "volatile-directory": QUIET.replace("path: /a", "path: /dev/shm/a"),
    "no-metadata-server": QUIET.replace(
        "a: {type: local, path: /a}", "a: {type: lustre, path: /a, oss: {instance: c5n.9xlarge}}"
    ),
}


def names(text: str) -> list[str]:
    return [finding.name for finding in warn(parse_spec(text, base=Path("/base")))]


def test_a_good_spec_has_no_findings() -> None:
    assert names(QUIET) == []


def test_every_finding_of_the_room_has_a_sample() -> None:
    import csv

    import gridwright.spec

    rows = csv.DictReader(
        (Path(gridwright.spec.__file__).parent / "data/findings.csv").read_text().splitlines()
    )
    assert {row["name"] for row in rows if row["room"] == "spec"} == set(HURTS)


@pytest.mark.parametrize("name", HURTS)
def test_it_is_found_and_can_be_silenced(name: str) -> None:
    assert name in KNOWN
    assert name in names(HURTS[name])
    silenced = HURTS[name] + f"silence:\n  {name}: this is a test\n"
    assert name not in names(silenced)
    assert name in [each.name for each in all_findings(parse_spec(silenced))]


@pytest.mark.parametrize(
    ("data", "total"), [("100 MB/s/core", "250 MB/s/core"), ("75 MB/s/core", "250 MB/s/core")]
)
def test_shared_disks_sums_only_those_that_share(data: str, total: str) -> None:
    spec = parse_spec(FULL % ("/fast", "/slow", data, "fast"))
    (finding,) = warn(spec)
    assert "libraries work and util share file system fast" in finding.text
    assert total in finding.text


def test_shared_disks_sums_all_three() -> None:
    (finding,) = [
        each
        for each in warn(
            parse_spec(
                FULL.replace("filesystem: fast", "filesystem: slow") % ("/f", "/s", "75 MB/s/core", "slow")
            )
        )
        if each.name == "shared-disks"
    ]
    assert "libraries data, work and util share file system slow" in finding.text
    assert "325 MB/s/core" in finding.text


@pytest.mark.parametrize(
    ("rate", "word"),
    [
        ("10 MB/s/core", "below"),
        ("37 MB/s/core", "below"),
        ("38 MB/s/core", ""),
        ("400 MB/s/core", ""),
        ("401 MB/s/core", "above"),
    ],
)
def test_unusual_requirements(rate: str, word: str) -> None:
    found = warn(parse_spec(QUIET.replace("100 MB/s/core", rate)))
    assert len(found) == bool(word)
    for finding in found:
        assert f"requires {rate}, far {word} the published 75 MB/s/core to 100 MB/s/core" in finding.text
        assert "4632-2020" in finding.text


def test_published_figures_have_a_source_and_a_date() -> None:
    published = published_requirements()
    assert set(published) == {"data", "work", "util"}
    assert all(each.source and each.published.isdigit() for each in published.values())


def test_an_error_cannot_be_silenced() -> None:
    error = Finding("error", "shared-disks", "text", "remedy")
    warning = Finding("warning", "shared-disks", "text", "remedy")
    assert unsilenced([error, warning], {"shared-disks": "reason"}) == [error]


def test_warnings_need_no_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    def touch(*_: object, **__: object) -> None:
        raise AssertionError("the file system was asked")

    monkeypatch.setattr(Path, "stat", touch)
    monkeypatch.setattr(Path, "exists", touch)
    warn(parse_spec(HURTS["volatile-directory"], base=Path("/base")))
