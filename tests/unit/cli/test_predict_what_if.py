"""`predict --without` and `--sensitivity` on the examples: one JSON document, and a status that tells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gridwright.cli.plan.predict import PredictFlags, run_predict
from gridwright.errors import GridwrightError

EXAMPLES = Path(__file__).parents[3] / "examples"
LUSTRE = EXAMPLES / "aws-lustre.yaml"
PREDICTED = [
    LUSTRE,
    EXAMPLES / "aws-fsx.yaml",
    EXAMPLES / "oci-lustre.yaml",
    *sorted((EXAMPLES / "papers").glob("*.yaml")),
]


def answer(capsys: pytest.CaptureFixture[str], file: Path, **flags: Any) -> tuple[int, dict[str, Any]]:
    status = run_predict(PredictFlags(file=file, json=True, **flags))
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return int(status), document


@pytest.mark.parametrize("file", PREDICTED, ids=lambda file: file.stem)
def test_every_example_of_a_cloud_has_both_answers(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, without = answer(capsys, file, without=["each"])
    assert status == 0, "the table alone judges nothing"
    assert without["without"] is None
    assert "node" in {row["sort"] for row in without["one_of_each_dead"]}
    _, moved = answer(capsys, file, sensitivity=True)
    assert moved["change"] == pytest.approx(0.1)
    assert any(abs(effect["more"]) > 0.05 for effect in moved["inputs"][0]["effects"])


def test_a_requirement_that_a_dead_server_breaks_is_exit_status_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, document = answer(capsys, LUSTRE, without=["oss1"])
    data, work = document["without"]["libraries"][:2]
    assert status == 1
    assert [data[key] for key in ("library", "files", "holds")] == ["data", "unavailable", False]
    assert data["rates"]["read"]["part"] == pytest.approx(0.5)
    assert work["holds"] is True
    scale = EXAMPLES / "papers" / "003-spectrum-scale.yaml"
    status, document = answer(capsys, scale, without=["compute1"])
    assert status == 1, "it asks for the cores of all nodes"
    assert document["without"]["libraries"][0]["holds"] is True, "the other nodes lose nothing"


def test_a_change_of_another_size_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    _, document = answer(capsys, LUSTRE, sensitivity=True, by=20.0)
    nodes = next(each for each in document["inputs"] if each["input"] == "nodes")
    data = next(each for each in nodes["effects"] if each["library"] == "data")
    assert [data["less"], data["more"]] == pytest.approx([1 / 0.8 - 1, 1 / 1.2 - 1])


def test_flags_that_do_not_go_together_are_told_at_once() -> None:
    flags = PredictFlags(file=LUSTRE, without=["oss1"], sensitivity=True, explain=True, workload="quick")
    with pytest.raises(GridwrightError) as caught:
        run_predict(flags)
    said = {problem.where for problem in caught.value.problems}
    assert {"--sensitivity", "--explain", "--workload"} <= said
    with pytest.raises(GridwrightError, match="--sensitivity"):
        run_predict(PredictFlags(file=LUSTRE, by=5.0))


def test_a_days_load_is_one_document_and_a_status_that_tells(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    status, document = answer(capsys, LUSTRE, day="business-day")
    assert (status, document["holds"]) == (0, True)
    assert [each["library"] for each in document["walks"]][:2] == ["data", "data"]
    spec = tmp_path / "grid.yaml"
    spec.write_text(
        """name: daily
provider: aws
region: us-east-1
nodes: {compute: {instance: c5.xlarge, count: 4}}
filesystems:
  cold: {type: local, path: /c, disks: {type: st1, count: 1, size: 1 TiB}}
libraries:
  data: {filesystem: cold, requires: 50 MB/s/core}
"""
    )
    status, document = answer(capsys, spec, day="business-day")
    assert (status, document["holds"]) == (1, False)
    assert {each["bound_by"] for each in document["walks"]} == {"cold.volumes"}
    run_predict(PredictFlags(file=spec, day="business-day"))
    text = capsys.readouterr().out
    assert "are spent at 14:" in text
    assert "predicted: the load is not served all day" in text
    with pytest.raises(GridwrightError) as caught:
        run_predict(PredictFlags(file=spec, day="all-day", sensitivity=True))
    assert [problem.where for problem in caught.value.problems] == ["--day"]
