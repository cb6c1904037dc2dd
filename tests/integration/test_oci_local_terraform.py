"""up, status and down of a grid on OCI by a tofu and a terraform on this machine.

The provider is the stand-in that refuses what OCI refuses; calls of the SDK go to the double, which has what
the stand-in has made.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridwright.errors import GridwrightError
from gridwright.providers.oci.down import down, look
from gridwright.providers.oci.files import oci_files
from gridwright.providers.oci.provider import status
from gridwright.providers.oci.resource_manager import LOCK_FILE, lock_text, root_files
from gridwright.providers.oci.up import OciUp, up
from gridwright.providers.provider import Caller
from gridwright.spec.load import load_spec
from gridwright.spec.model import GridSpec
from tests.support.oci_cloud.server import OciDouble
from tests.support.oci_cloud.signed_in import signed_in
from tests.support.tofu import TofuError, TofuRoots, tofu, unlocked

EXAMPLE = Path(__file__).parents[2] / "examples" / "oci-scale.yaml"
DISKS = "count: 10, size: 1 TiB"
pytestmark = pytest.mark.thorough


@pytest.fixture(params=["tofu", "terraform"])
def tool(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = str(request.param)
    if name == "terraform" and shutil.which(name) is None:
        pytest.skip("terraform is not on this machine")
    (tmp_path / "bin").mkdir()
    unlocked(tofu() if name == "tofu" else Path(str(shutil.which(name))), tmp_path / "bin" / name)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    return name


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OciDouble]:
    roots = TofuRoots(tmp_path, tmp_path)
    for name, value in roots.environment().items():
        if name.startswith(("TF_CLI_CONFIG", "OCI_SCHEMA", "OCI_CLOUD")):
            monkeypatch.setenv(name, value)
    with signed_in(tmp_path, monkeypatch) as double:
        double.cloud_file = roots.cloud_file
        yield double


def spec_of(tool: str, directory: Path) -> GridSpec:
    text = EXAMPLE.read_text(encoding="utf-8").replace("oci:\n", f"oci:\n  deploy: {tool}\n", 1)
    (directory / "grid.yaml").write_text(text, encoding="utf-8")
    return load_spec(directory / "grid.yaml")


def raise_up(spec: GridSpec, said: list[str] | None = None, names: frozenset[str] = frozenset()) -> OciUp:
    return up(spec, Caller((said if said is not None else []).append), names, poll_s=0.01)


def test_a_grid_is_made_changed_and_taken_away(cloud: OciDouble, tool: str, tmp_path: Path) -> None:
    spec = spec_of(tool, tmp_path)
    assert status(spec).state == "not-up"
    said: list[str] = []
    made = raise_up(spec, said)
    assert made.made
    assert "gridwright-oci-scale-storage: what changes:" in said
    assert made.login
    assert status(spec).whole, status(spec).text()
    assert raise_up(spec).changes == ()

    # Somebody changes a volume in the console.
    content = json.loads(cloud.cloud_file.read_text()) if cloud.cloud_file else {}
    ocid = next(key for key, each in content["resources"].items() if each["type"] == "oci_core_volume")
    name = content["resources"][ocid]["values"]["display_name"]
    content["resources"][ocid]["values"]["vpus_per_gb"] = "20"
    if cloud.cloud_file:
        cloud.cloud_file.write_text(json.dumps(content))
    found = status(spec, drift=True).drift
    assert found is not None
    assert [(each.address, each.how) for each in found] == [(f"oci_core_volume.{name}", "changed")]
    (mended,) = raise_up(spec).changes
    assert (mended.verb, mended.name) == ("change", name)

    kept = down(look(spec, frozenset()), Caller(), poll_s=0.01)
    assert kept.kept
    assert status(spec).state == "storage-only"
    assert {each["type"] for each in cloud.resources.values()} >= {"oci_core_volume", "oci_core_vcn"}
    assert "oci_core_instance" not in {each["type"] for each in cloud.resources.values()}
    gone = down(look(spec, frozenset({"lake"})), Caller(), poll_s=0.01)
    assert "nothing of it is left" in gone.text()
    assert not cloud.resources
    assert not (tmp_path / "oci-scale.terraform").exists()


def test_what_destroys_data_is_refused_unless_named(cloud: OciDouble, tool: str, tmp_path: Path) -> None:
    raise_up(spec_of(tool, tmp_path))
    text = (tmp_path / "grid.yaml").read_text(encoding="utf-8")
    fewer = text.replace(DISKS, DISKS.replace("10", "9"))
    assert fewer != text
    (tmp_path / "grid.yaml").write_text(fewer, encoding="utf-8")
    spec = load_spec(tmp_path / "grid.yaml")
    volumes = {key for key, each in cloud.resources.items() if each["type"] == "oci_core_volume"}
    with pytest.raises(GridwrightError, match="would destroy the data on oci-scale-lake-p1-v19") as raised:
        raise_up(spec)
    assert len(raised.value.problems) == 4
    status(spec)
    assert {key for key, each in cloud.resources.items() if each["type"] == "oci_core_volume"} == volumes
    said: list[str] = []
    raise_up(spec, said, frozenset({"lake"}))
    assert "detaching 4 volumes from their servers" in said
    assert status(spec).whole, status(spec).text()
    assert len(status(spec).volumes) == 36


def test_a_grid_whose_state_is_lost_is_not_made_twice(cloud: OciDouble, tool: str, tmp_path: Path) -> None:
    spec = spec_of(tool, tmp_path)
    raise_up(spec)
    before = set(cloud.resources)
    (tmp_path / "oci-scale.terraform").rename(tmp_path / "elsewhere")
    with pytest.raises(GridwrightError, match="is there already"):
        raise_up(spec)
    assert set(cloud.resources) == before
    with pytest.raises(GridwrightError, match="is left, and may be billed"):
        down(look(spec, frozenset()), Caller(), poll_s=0.01)
    (tmp_path / "elsewhere").rename(tmp_path / "oci-scale.terraform")
    assert raise_up(spec).changes == ()


def test_a_provider_of_another_digest_is_refused_by_the_rendered_lock_file(
    cloud: OciDouble, tool: str, tmp_path: Path
) -> None:
    """The stand-in has the release's name and number, and not its digest."""
    spec = spec_of(tool, tmp_path)
    files = oci_files(spec)[0]
    program = tofu() if tool == "tofu" else Path(str(shutil.which(tool, path=os.defpath + ":/usr/local/bin")))
    for part in ("storage", "grid"):
        directory = tmp_path / "rendered" / part
        directory.mkdir(parents=True)
        for name, content in root_files(files, part).items():
            (directory / name).write_bytes(content)
    roots = TofuRoots(tmp_path / "rendered", tmp_path, program)
    for part in ("storage", "grid"):
        with pytest.raises(TofuError, match=r"doesn't match any\s+of\s+the\s+checksums\s+previously"):
            roots.run(part, "init", "-no-color")
    lock = tmp_path / "rendered" / "storage" / LOCK_FILE
    assert lock.read_text() == lock_text()
    # What lets it in is that nobody holds it to digests.
    lock.unlink()
    roots.validate("storage")
    # And what that has written down is another package than ours.
    digests = set(re.findall(r'"((?:h1|zh):[^"]+)"', lock.read_text()))
    assert digests
    assert not digests & set(re.findall(r'"((?:h1|zh):[^"]+)"', lock_text()))
