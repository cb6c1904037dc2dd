"""Repositories of a grid spec: where they may be, how often they are carried, and what they are to FSx."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.errors import GridwrightError
from gridwright.spec import parse_spec
from gridwright.spec.fields import SpecModel
from gridwright.spec.linked import changelog_user, linked_directories
from gridwright.spec.model import GridSpec
from gridwright.spec.repository import LibraryRepository, read_schedule
from gridwright.spec.structure import json_schema

DISK = {"disk": {"type": "local", "path": "/data"}}
FSX = {"fsx": {"type": "fsx-lustre", "path": "/fsx", "capacity": "2400 GiB"}}
CLOUD = {"provider": "aws", "region": "us-east-1", "nodes": {"compute": {"instance": "m5n.8xlarge"}}}


def parsed(repositories: dict[str, Any], **fields: Any) -> GridSpec:
    values = {"filesystems": DISK, **fields, "repositories": repositories}
    return parse_spec(json.dumps(values), base=Path("/base"))


def refused(repositories: dict[str, Any], **fields: Any) -> set[str | None]:
    """The fields that problems are about."""
    try:
        parsed(repositories, **fields)
    except GridwrightError as error:
        return {each.field for each in error.problems}
    return set()


PARTS = st.lists(st.sampled_from(["a", "b", "ab"]), max_size=3)
PLACES = st.lists(st.tuples(st.sampled_from(["data", "work"]), PARTS, PARTS), min_size=1, max_size=4)


def is_within(one: tuple[str, ...], two: tuple[str, ...]) -> bool:
    return one[: len(two)] == two or two[: len(one)] == one


@given(PLACES, st.booleans())
def test_none_within_another_and_no_prefix_twice(
    places: list[tuple[str, list[str], list[str]]], trailing: bool
) -> None:
    end = "/" if trailing else ""
    repositories = {
        f"r{number}": {
            "library": library,
            "path": "/" + "".join(f"{part}/" for part in path).rstrip("/") + (end if path else ""),
            "bucket": "s3://site" + "".join(f"/{part}" for part in prefix) + end,
        }
        for number, (library, path, prefix) in enumerate(places)
    }
    expected = set()
    for number, (library, path, prefix) in enumerate(places):
        for other_library, other_path, other_prefix in places[:number]:
            if is_within((library, *path), (other_library, *other_path)):
                expected.add(f"repositories.r{number}.path")
            if is_within(tuple(prefix), tuple(other_prefix)):
                expected.add(f"repositories.r{number}.bucket")

    assert refused(repositories) == expected


@given(st.sampled_from(["hourly", "daily", "15m", "90 min", "2h"]), st.integers(1, 200_000))
def test_an_rpo_is_longer_than_the_time_between_exports(changed: str, rpo: int) -> None:
    found = refused(
        {"a": {"library": "data", "bucket": "s3://site", "export": {"changed": changed}, "rpo": f"{rpo}s"}}
    )

    period = read_schedule(changed).period_s
    assert period
    assert found == ({"repositories.a.rpo"} if rpo <= period else set())


@pytest.mark.parametrize(
    ("text", "period_s"),
    [
        ("at-once", 0.0),
        ("hourly", 3600.0),
        ("daily", 86400.0),
        ("never", None),
        ("1m", 60.0),
        ("1h 30m", 5400.0),
    ],
)
def test_how_often(text: str, period_s: float | None) -> None:
    assert read_schedule(text).period_s == period_s


def test_what_is_read_is_written_again_and_fits_the_schema() -> None:
    repositories = {
        "archive": {
            "library": "data",
            "path": "/results/",
            "bucket": "s3://site/prod/",
            "endpoint": "http://127.0.0.1:7070",
            "export": {"changed": "15m", "deletions": True},
            "import": {"names": "hourly"},
            "rpo": "1h",
        }
    }
    spec = parsed(repositories)
    written = spec.model_dump(mode="json", exclude_unset=True)["repositories"]

    assert written["archive"] == repositories["archive"] | {
        "path": "/results",
        "bucket": "s3://site/prod",
        "rpo": "3600s",
    }
    assert parsed(written).repositories == spec.repositories
    assert spec.repository_directory("archive") == Path("/data/data/results")


def test_the_schema_takes_what_is_a_schedule_and_nothing_else() -> None:
    pattern = json_schema()["$defs"]["ImportPlan"]["properties"]["names"]["pattern"]

    assert all(re.search(pattern, each) for each in ("at-once", "hourly", "never", "15m", "1h 30m"))
    assert not any(re.search(pattern, each) for each in ("weekly", "hourly ", "15", "never mind"))


def test_every_field_of_a_repository_says_what_a_change_does() -> None:
    model = type(parsed({"a": {"library": "data", "bucket": "s3://site"}}).repositories["a"])

    assert issubclass(model, SpecModel)
    assert "import" in model.model_fields


def linked(repository: dict[str, Any] | None, repositories: dict[str, Any]) -> dict[str, dict[str, Any]]:
    fsx = {"fsx": {**FSX["fsx"], **({"repository": repository} if repository else {})}}
    spec = parsed(repositories, filesystems=fsx, **CLOUD)
    return {name: dataclasses.asdict(each) for name, each in spec.links_of("fsx").items()}


def test_a_repository_of_fsx_is_the_same_as_the_section_of_the_file_system() -> None:
    old = linked({"bucket": "s3://site/prod", "directory": "/data/sales"}, {})
    new = linked(
        None,
        {
            "sales": {
                "library": "data",
                "path": "/sales",
                "bucket": "s3://site/prod",
                "export": {"changed": "at-once", "deletions": True},
                "import": {"names": "at-once", "deletions": True},
            }
        },
    )

    assert old[""] == new["sales"]


def test_without_at_once_fsx_carries_nothing_by_itself() -> None:
    (link,) = linked(
        None, {"a": {"library": "data", "bucket": "s3://site", "export": {"changed": "never"}}}
    ).values()

    assert (link["directory"], link["import_on"], link["export_on"]) == ("/data", [], [])


def test_both_ways_for_different_directories_stand_beside_each_other() -> None:
    found = linked(
        {"bucket": "s3://site/old", "directory": "/old"},
        {"new": {"library": "data", "bucket": "s3://site/new"}},
    )

    assert set(found) == {"", "new"}


def test_by_time_fsx_carries_nothing_by_itself_and_both_sections_are_one_list() -> None:
    fsx = {
        "fsx": {**FSX["fsx"], "repository": {"bucket": "s3://site/old", "directory": "/old", "export_on": []}}
    }
    spec = parsed(
        {
            "new": {
                "library": "data",
                "bucket": "s3://site/new",
                "export": {"changed": "15m"},
                "import": {"names": "daily"},
                "rpo": "1h",
            }
        },
        filesystems=fsx,
        **CLOUD,
    )
    found = linked_directories(spec)

    assert list(found) == ["fsx", "new"]
    assert (found["new"].link.export_on, found["new"].link.import_on) == ([], [])
    assert (str(found["new"].export), str(found["new"].names), found["new"].rpo_s) == ("15m", "daily", 3600.0)
    assert (str(found["fsx"].export), str(found["fsx"].names)) == ("never", "at-once")
    assert (found["new"].below, str(found["new"].mounted)) == ("data", "/fsx/data")


NAMES = st.from_regex(r"[A-Za-z0-9._-]{1,256}", fullmatch=True, alphabet=st.characters(codec="ascii"))


@given(NAMES, st.sampled_from(["", "/", "/in", "/in/2026/"]), st.sampled_from([DISK, FSX]))
def test_what_a_refusal_of_a_namespace_says_to_write_is_taken(
    name: str, prefix: str, filesystems: dict[str, Any]
) -> None:
    """Oracle's buckets may have names that no bucket of S3 has; FSx goes to no other store."""
    there = CLOUD if filesystems is FSX else {}
    wrong = {"library": "data", "bucket": f"oci://{name}@tenancy{prefix}"}
    with pytest.raises(GridwrightError) as caught:
        parsed({"a": wrong}, filesystems=filesystems, **there)
    (problem,) = caught.value.problems
    assert problem.field == "repositories.a.bucket"
    found = re.search(r"rite (s3://\S+) and endpoint: (https://\S+),", problem.remedy or "")
    assert (found is None) == (filesystems is FSX)
    if found is not None:
        right = {
            "library": "data",
            "bucket": found[1],
            "endpoint": found[2].replace("REGION", "us-ashburn-1"),
        }
        assert parsed({"a": right}).repositories["a"].bucket.endswith(prefix.rstrip("/"))


def test_each_repository_of_a_lustre_is_an_archive_of_its_own() -> None:
    lustre = {"type": "lustre", "path": "/shared", "source": "10.0.0.1@tcp:/scratch"}
    places: dict[str, Any] = {
        "filesystems": {"shared": lustre, **DISK},
        "libraries": {
            "data": {"filesystem": "shared", "path": "d"},
            "work": {"filesystem": "shared", "path": "w"},
        },
    }
    one = {"library": "data", "bucket": "s3://site/a"}
    two: dict[str, Any] = {"library": "work", "bucket": "s3://site/b"}
    assert refused({"one": one, "two": two}, **places) == {"repositories.two.hsm_archive"}
    spec = parsed({"one": one, "two": {**two, "hsm_archive": 2}}, **places)
    assert (spec.hsm_archive("one"), spec.hsm_archive("two")) == (1, 2)
    for wrong in (0, 33, "x", [1]):
        assert refused({"one": {**one, "hsm_archive": wrong}}, **places) == {"repositories.one.hsm_archive"}
    # Files of a disk are held back by its node, whatever the number.
    assert parsed({"one": one}).hsm_archive("one") is None


def test_changelogs_are_of_a_lustre_that_is_there_already() -> None:
    lustre: dict[str, Any] = {"type": "lustre", "path": "/shared", "source": "10.0.0.1@tcp:/scratch"}
    archive = {"library": "data", "bucket": "s3://site/a", "export": {"by": "changelog"}}
    libraries = {"data": {"filesystem": "shared"}}
    spec = parsed({"archive": archive}, filesystems={"shared": lustre}, libraries=libraries)
    user = changelog_user(spec, "archive")
    assert user and re.fullmatch(r"gw-archi-[0-9a-f]{6}", user)
    other = parsed({"archive": archive}, name="other", filesystems={"shared": lustre}, libraries=libraries)
    assert changelog_user(other, "archive") != user
    disks = {"instance": "m6i.large", "disks": {"type": "gp3", "size": "500 GiB"}}
    built = {"type": "lustre", "path": "/shared", "oss": disks, "mds": disks}
    nfs = {"type": "nfs", "path": "/shared", "server": "10.9.0.7", "export": "/vol"}
    for filesystem in (built, nfs):
        found = refused({"archive": archive}, filesystems={"shared": filesystem}, libraries=libraries)
        assert found == {"repositories.archive.export.by"}


@given(st.text(min_size=1, max_size=40))
def test_a_user_of_changelogs_has_a_name_that_lustre_takes(name: str) -> None:
    lustre = {"type": "lustre", "path": "/shared", "source": "10.0.0.1@tcp:/scratch"}
    archive = LibraryRepository.model_validate(
        {"library": "data", "bucket": "s3://site/a", "export": {"by": "changelog"}}
    )
    spec = parsed({}, filesystems={"shared": lustre}, libraries={"data": {"filesystem": "shared"}})
    found = changelog_user(spec.model_copy(update={"repositories": {name: archive}}), name)
    assert found and re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,14}", found)
