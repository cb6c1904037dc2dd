"""Facts about the Terraform provider of OCI are what its bridged package says: read anew from the wheel."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.oci_schema.read_bridge import FILE, RESOURCES, SOURCES, UNNUMBERED, content

DOWNLOAD_S = 300


@pytest.mark.thorough
def test_the_committed_facts_are_those_of_the_wheel(tmp_path: Path) -> None:
    """From the index that pip is set to. The wheel is unpacked and parsed; nothing of it runs."""
    kept = json.loads(FILE.read_text())
    name, version = kept["source"].removeprefix("PyPI ").partition(",")[0].split()
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"),
            *("--dest", tmp_path, f"{name}=={version}"),
        ],
        timeout=DOWNLOAD_S,
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        wanted = [each for each in archive.namelist() if _is_read(each)]
        archive.extractall(tmp_path, wanted)
    package = tmp_path / "pulumi_oci"
    again = content(package, version)
    assert again["arguments"].keys() == {*RESOURCES, *(f"data.{each}" for each in SOURCES)}
    assert again == kept
    sources = "".join(each.read_text() for each in package.rglob("*.py"))
    assert [each for each in UNNUMBERED if f"{each}:" not in sources] == [], "no such name in the bridge"


def _is_read(path: str) -> bool:
    inside = path.removeprefix("pulumi_oci/")
    places = {*RESOURCES.values(), *SOURCES.values(), "provider.py"}
    beside = {str(Path(each).with_name(name)) for each in places for name in ("_inputs.py", "outputs.py")}
    return inside in places | beside
