"""`predict --free-space`: how full OSTs are changes where new files go, and what streams get."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gridwright.cli.plan.predict import PredictFlags, run_predict
from gridwright.errors import GridwrightError

SPEC = """
name: grid
provider: aws
region: us-east-1
nodes: {compute: {instance: m5n.4xlarge, count: 4}}
filesystems:
  shared:
    type: lustre
    path: /shared
    oss: {instance: m5n.4xlarge, count: 2, disks: {type: gp3, count: 4, size: 2 TiB}}
    mds: {instance: m5.4xlarge, disks: {type: gp3, size: 500 GiB}}
libraries: {data: {requires: 20 MB/s/core, layout: LAYOUT}}
"""


def grid(directory: Path, layout: str = "1") -> Path:
    file = directory / "grid.yaml"
    file.write_text(SPEC.replace("LAYOUT", layout))
    return file


def lfs_df(directory: Path, free: list[float], mounted: str = "/shared") -> str:
    whole = 2 * 2**30
    rows = [
        f"shared-OST{place:04x}_UUID {whole} {whole - int(part * whole)} {int(part * whole)} 1% "
        f"{mounted}[OST:{place}]"
        for place, part in enumerate(free)
    ]
    file = directory / "df.txt"
    file.write_text("\n".join(["UUID 1K-blocks Used Available Use% Mounted on", *rows, ""]))
    return str(file)


def document(capsys: pytest.CaptureFixture[str], file: Path, **flags: Any) -> dict[str, Any]:
    run_predict(PredictFlags(file=file, json=True, **flags))
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def low(document: dict[str, Any]) -> float:
    return float(document["layouts"]["data"]["placed"][0]["floor_bytes_per_s"])


def test_uneven_osts_lower_the_floor_and_even_ones_change_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = grid(tmp_path)
    alike = document(capsys, file)
    assert document(capsys, file, free_space=lfs_df(tmp_path, [0.5] * 7 + [0.42])) == alike
    uneven = document(capsys, file, free_space=lfs_df(tmp_path, [0.6] * 2 + [0.08] * 6))
    assert low(uneven) < 0.7 * low(alike)
    told = uneven["layouts"]["data"]["uneven_space"]
    assert (told["fullest_free"], told["emptiest_free"]) == (pytest.approx(0.08), pytest.approx(0.6))
    assert told["alike_bytes_per_s"] == low(alike)
    rates = [each["libraries"][0]["read"]["low_bytes_per_s_per_core"] for each in (alike, uneven)]
    assert rates[1] < rates[0], "the band of the library's rate is as wide as that"


def test_explain_says_which_ost_is_full_and_what_it_costs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    space = lfs_df(tmp_path, [0.6] * 2 + [0.08] * 6)
    run_predict(PredictFlags(file=grid(tmp_path), explain=True, free_space=space))
    text = " ".join(capsys.readouterr().out.split())
    assert "shared-OST0002 has 8 % free against 60 % of shared-OST0000" in text
    assert "new files of 32 streams meet 7 of 8 OSTs, and what they get in 95 % of placements falls" in text


def test_a_full_ost_takes_none_of_files_on_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = grid(tmp_path, "-1")
    whole = low(document(capsys, file))
    assert low(document(capsys, file, free_space=lfs_df(tmp_path, [0.5] * 7 + [0.0]))) == pytest.approx(
        whole * 7 / 8
    )


@pytest.mark.parametrize(
    ("free", "mounted", "message"),
    [
        ([0.5] * 4, "/shared", "shared has 8 OSTs by the grid spec, and free space is told of 4"),
        ([0.0] * 8, "/shared", "no OST of shared takes new files"),
        ([], "/shared", "it has no free space of OSTs"),
    ],
)
def test_what_does_not_fit_the_grid_is_refused(
    tmp_path: Path, free: list[float], mounted: str, message: str
) -> None:
    with pytest.raises(GridwrightError, match=message):
        run_predict(PredictFlags(file=grid(tmp_path), free_space=lfs_df(tmp_path, free, mounted)))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(GridwrightError, match="cannot be read: No such file") as error:
        run_predict(PredictFlags(file=grid(tmp_path), free_space=str(tmp_path / "none")))
    assert "lfs df PATH" in str(error.value)
