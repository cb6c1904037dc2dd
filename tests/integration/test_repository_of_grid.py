"""`gridwright repo` takes repositories out of a grid spec, and says whether the `rpo` of each is met."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridwright.repository.known import Known
from tests.support.command import Command
from tests.support.object_store import BUCKET, StoreServer, store_server

SPEC = """\
filesystems: {{disk: {{type: local, path: .}}}}
libraries: {{data: {{}}, work: {{}}}}
repositories:
  archive: {{library: data, bucket: s3://{bucket}/archive, endpoint: "{endpoint}", rpo: 2h}}
  results: {{library: work, path: /results, bucket: s3://{bucket}/results, endpoint: "{endpoint}"}}
"""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StoreServer]:
    """A store that the spec alone names: the environment has credentials, and no endpoint."""
    with store_server(tmp_path / "store") as served:
        for name, value in served.environment.items():
            if name != "AWS_ENDPOINT_URL":
                monkeypatch.setenv(name, value)
        yield served


@pytest.fixture
def spec(tmp_path: Path, server: StoreServer) -> Path:
    file = tmp_path / "grid.yaml"
    file.write_text(SPEC.format(bucket=BUCKET, endpoint=server.endpoint_url), "utf-8")
    (tmp_path / "data").mkdir()
    (tmp_path / "work" / "results").mkdir(parents=True)
    (tmp_path / "data" / "sales.csv").write_text("1,2\n", "utf-8")
    (tmp_path / "work" / "results" / "model.bin").write_bytes(bytes(4096))
    (tmp_path / "work" / "left-out").write_text("no repository has it\n", "utf-8")
    return file


def test_repositories_of_a_spec_go_out_and_come_back(
    spec: Path, server: StoreServer, gridwright: Command
) -> None:
    assert gridwright("repo", "export", "results", "--grid", spec).status == 0
    keys = {each["Key"] for each in server.client().list_objects_v2(Bucket=BUCKET)["Contents"]}
    assert {each for each in keys if ".gridwright/" not in each} == {"results/", "results/model.bin"}

    file = spec.parent / "work" / "results" / "model.bin"
    file.unlink()
    assert gridwright("repo", "import", "results", "model.bin", "--contents", "--grid", spec).status == 0
    assert file.read_bytes() == bytes(4096)


def test_which_repository_is_asked(spec: Path, gridwright: Command) -> None:
    several = gridwright("repo", "export", "--grid", spec)
    unknown = gridwright("repo", "export", "archiv", "--grid", spec)

    assert (several.status, unknown.status) == (2, 2)
    assert "name archive or results" in several.text.lower()
    assert "did you mean archive?" in unknown.text.lower()


@pytest.mark.few(1)
@pytest.mark.parametrize("words", [("results",), ("--name", "results")])
def test_all_verbs_take_the_name_of_a_repository_in_both_ways(
    spec: Path, gridwright: Command, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "copy").mkdir()
    verbs = {"export": (), "status": (), "ls": (), "verify": (), "trash": (), "import": (), "release": ()}
    for verb, more in {**verbs, "duplicate": ("--to", tmp_path / "copy")}.items():
        ended = gridwright("repo", verb, *words, "--grid", spec, *more, "--json")
        assert ended.status == 0, (verb, ended)
        named = ended.json["repositories"] if verb == "status" else [ended.json]
        assert [each["repository"] for each in named] == ["results"], verb
    assert gridwright("repo", "serve", *words, "--grid", spec).status == 3
    wrong = gridwright("repo", "status", "resluts", "--grid", spec)
    assert (wrong.status, "did you mean results?" in wrong.text.lower()) == (2, True)


def test_the_spec_in_place_of_a_name_is_that_of_all_repositories(spec: Path, gridwright: Command) -> None:
    plain = spec.with_name("site")
    plain.write_text(spec.read_text("utf-8"), "utf-8")
    for each in (spec, plain):
        found = gridwright("repo", "status", each, "--json").json["repositories"]
        assert [one["repository"] for one in found] == ["archive", "results"]


def test_words_after_the_option_of_a_name_are_paths(spec: Path, gridwright: Command) -> None:
    flags = ("--name", "results", "--grid", spec)
    assert gridwright("repo", "export", "model.bin", *flags, "--json").json["done"]["sent"]["files"] == 1


def test_the_walk_of_the_page_shows_the_lines_that_status_prints(spec: Path, gridwright: Command) -> None:
    page = (Path(__file__).parents[2] / "docs" / "repository.md").read_text("utf-8")
    shown = page.partition("$ gridwright repo status\n")[2].partition("\n$ ")[0].splitlines()
    assert gridwright("repo", "export", "results", "--grid", spec).status == 0
    printed = gridwright("repo", "status", "results", "--grid", spec).out.splitlines()
    # The store of the tests may have a note of its own after the lines that all have.
    assert [_label(each) for each in shown] == [_label(each) for each in printed[: len(shown)]]


def _label(line: str) -> str:
    """What a line is about: its words before the first figure or value."""
    if line.startswith("  library "):
        return "library"
    return re.split(r":|  +", line.strip())[0] if line.startswith("  ") else ""


def test_a_recovery_point_is_missed_before_the_export_and_when_it_is_too_long_ago(
    spec: Path, gridwright: Command
) -> None:
    before = gridwright("repo", "status", spec, "--json")
    assert before.status == 1
    archive, results = before.json["repositories"]
    assert archive["finding"]["name"] == "recovery-point-missed"
    assert (archive["required_s"], archive["changed_files"], results["finding"]) == (7200.0, 2, None)

    hot = gridwright("repo", "status", spec, "--hot", "--json")
    assert (hot.status, hot.json["repositories"][0]["last_used"][0]["share"]) == (0, 1.0)
    assert hot.json["repositories"][1]["bytes"] == 4096

    gridwright("repo", "export", "archive", "--grid", spec)
    after = gridwright("repo", "status", spec, "--json")
    assert after.status == 0
    assert after.json["repositories"][0]["finding"] is None

    # The file is as it was a day ago, and the one beside it has waited for a timer since.
    (spec.parent / "data" / "costs.csv").write_text("3\n", "utf-8")
    known = Known(spec.parent / "data")
    known.set_fact("exported", str(float(known.fact("exported") or 0) - 86400))
    known.close()
    late = gridwright("repo", "status", spec)
    assert late.status == 1
    assert "recovery-point-missed" in late.out


@pytest.mark.parametrize("flags", [(), ("--hot",)])
def test_a_repository_that_fails_hides_no_other(
    spec: Path, gridwright: Command, flags: tuple[str, ...]
) -> None:
    gridwright("repo", "export", "results", "--grid", spec)
    (spec.parent / "data").rename(spec.parent / "away")
    told = gridwright("repo", "status", spec, *flags, "--json")
    archive, results = told.json["repositories"]
    assert (told.status, archive["repository"], results["repository"]) == (3, "archive", "results")
    assert (results["errors"], results["files"]) == ([], 1)
    assert [each["where"] for each in archive["errors"]] == [str(spec.parent / "data")]
    said = gridwright("repo", "status", spec, *flags)
    assert said.status == 3
    assert (
        f"archive: {spec.parent / 'data'} and s3://{BUCKET}/archive\n  error: {spec.parent / 'data'}: "
        in said.out
    )
    assert "\nresults: " in said.out

    if not flags:
        spec.write_text(
            spec.read_text("utf-8").replace(f"s3://{BUCKET}/archive", "s3://no-such-bucket"), "utf-8"
        )
        (spec.parent / "away").rename(spec.parent / "data")
        archive, results = gridwright("repo", "status", spec, "--json").json["repositories"]
        assert (archive["errors"][0]["where"], results["objects"]) == ("s3://no-such-bucket", 2)


def test_nothing_serves_a_repository_whose_file_system_guards_no_names(
    spec: Path, gridwright: Command
) -> None:
    refused = gridwright("repo", "serve", "archive", "--grid", spec)
    assert refused.status == 3
    assert "gridwright repo import" in refused.text


def test_a_silenced_recovery_point_is_not_missed(spec: Path, gridwright: Command) -> None:
    spec.write_text(
        spec.read_text("utf-8") + "silence: {recovery-point-missed: nobody exports yet}\n", "utf-8"
    )

    assert gridwright("repo", "status", spec).status == 0


def test_another_grid_gets_the_files_of_the_same_bucket(
    spec: Path, server: StoreServer, gridwright: Command
) -> None:
    gridwright("repo", "export", "archive", "--grid", spec)
    new = spec.parent / "new" / "grid.yaml"
    (new.parent / "data").mkdir(parents=True)
    wrong = SPEC.replace("/archive,", "/other,").format(bucket=BUCKET, endpoint=server.endpoint_url)
    new.write_text(wrong, "utf-8")
    refused = gridwright("repo", "duplicate", "archive", "--grid", spec, "--to", new)
    assert refused.status == 2
    assert f"has no repository of s3://{BUCKET}/archive" in refused.text

    new.write_text(SPEC.format(bucket=BUCKET, endpoint=server.endpoint_url), "utf-8")
    assert gridwright("repo", "duplicate", "archive", "--grid", spec, "--to", new).status == 0
    made = new.parent / "data" / "sales.csv"
    assert (made.stat().st_size, made.stat().st_mtime_ns) == (
        4,
        (spec.parent / "data" / "sales.csv").stat().st_mtime_ns,
    )
    own = gridwright("repo", "duplicate", "archive", "--grid", spec, "--to", spec)
    assert (own.status, "no duplicate of itself" in own.text) == (2, True)
    lacking = gridwright("repo", "duplicate", "archive", "--grid", spec, "--to", spec.parent / "a new one")
    assert (lacking.status, f"mkdir -p '{spec.parent / 'a new one'}'" in lacking.text) == (2, True)


def test_a_dry_run_of_verify_asks_nothing_and_counts_all(spec: Path, gridwright: Command) -> None:
    gridwright("repo", "export", "archive", "--grid", spec)
    plan = gridwright("repo", "verify", "archive", "--grid", spec, "--dry-run", "--json").json
    counted = {"count": 2, "bytes": 4, "files": 1, "links": 0, "directories": 1}
    assert (plan["dry_run"], plan["done"]) == (True, {"compared": counted})
    assert plan["requests"] == {"head": 3, "list": 1}, "the bucket, the manifest, and each of two"
    with contextlib.closing(Known(spec.parent / "data")) as known:
        known.set_fact("rate verify", '{"files_per_s": 0.5, "bytes_per_s": 1e9}')
    timed = gridwright("repo", "verify", "archive", "--grid", spec, "--dry-run", "--json").json
    assert (plan["at_least_s"], timed["at_least_s"]) == (None, 4.0)


def test_what_goes_to_the_trash_is_told_by_no_rate_of_bytes(
    spec: Path, server: StoreServer, gridwright: Command
) -> None:
    data, flags = spec.parent / "data", ("archive", "--grid", spec)
    (data / "large").write_bytes(bytes(1_000_000))
    gridwright("repo", "export", *flags)
    with contextlib.closing(Known(data)) as known:
        # As after an import of small files alone.
        known.set_fact("rate import", '{"files_per_s": 100.0, "bytes_per_s": 300.0, "bytes_mean": 3.0}')
    client = server.client()
    keys = [each["Key"] for each in client.list_objects_v2(Bucket=BUCKET)["Contents"]]
    client.delete_object(Bucket=BUCKET, Key=next(each for each in keys if each.endswith("large")))
    plan = gridwright("repo", "import", *flags, "--deletions", "--dry-run", "--json").json
    assert plan["done"]["removed"]["count"] == 1
    assert plan["at_least_s"] is None
    with contextlib.closing(Known(data)) as known:
        known.set_fact("rate import, removed", '{"files_per_s": 0.5}')
    plan = gridwright("repo", "import", *flags, "--deletions", "--dry-run", "--json").json
    assert plan["at_least_s"] == 2.0


def test_a_full_restore_is_foretold_by_the_best_rate_so_far(spec: Path, gridwright: Command) -> None:
    gridwright("repo", "export", "archive", "--grid", spec)
    first = gridwright("repo", "status", spec)
    assert "how fast bytes come is not known yet" in " ".join(first.out.split())
    with contextlib.closing(Known(spec.parent / "data")) as known:
        known.set_fact("rate import --contents", '{"files_per_s": 1.0, "bytes_per_s": 0.25}')
    timed = gridwright("repo", "status", spec, "--json").json["repositories"][0]
    assert timed["restore_s"] == 16.0
    assert timed["restore_bound_by"].startswith("the best rate of this repository")
