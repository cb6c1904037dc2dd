"""Rendered roots of OCI, carried out by OpenTofu on a stand-in that refuses what OCI refuses.

`tofu fmt` does not format JSON; that rendered JSON has one form is held in tests/unit/providers/oci.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Command
from tests.support.oci_matrix import VCN, matrix
from tests.support.tofu import TofuError, TofuRoots

EXAMPLES = Path(__file__).parents[2] / "examples"
SCALE = EXAMPLES / "oci-scale.yaml"
pytestmark = pytest.mark.thorough


def render(spec: Path, out: Path) -> Path:
    assert Command(out.parent)("render", spec, "--out", out, "--overwrite").status == 0
    return out


def raised(spec: Path, place: Path) -> TofuRoots:
    """A grid that stands, with the site's own network beside it."""
    roots = TofuRoots(render(spec, place / "rendered"), place)
    roots.add("oci_core_vcn", VCN["id"], cidr_blocks=[VCN["network"]])
    for name, ocid in VCN["subnets"].items():
        block = VCN["ranges"].get(name, "10.8.2.0/24")
        roots.add("oci_core_subnet", ocid, cidr_block=block, vcn_id=VCN["id"])
    for root in ("storage", "grid"):
        if root == "grid":
            roots.hand_over()
        roots.validate(root)
        assert roots.plan(root)
        roots.apply(root)
    return roots


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> TofuRoots:
    return raised(SCALE, tmp_path_factory.mktemp("standing"))


@pytest.fixture
def roots(standing: TofuRoots, tmp_path: Path) -> TofuRoots:
    """A copy of the grid that stands, to be spoilt."""
    shutil.copytree(standing.rendered, tmp_path / "rendered", symlinks=True)
    shutil.copy(standing.cloud_file, tmp_path)
    return TofuRoots(tmp_path / "rendered", tmp_path)


@pytest.mark.parametrize(
    "spec",
    ["oci-scale.yaml", "oci-lustre.yaml", "oci-managed-lustre.yaml", "papers/003-spectrum-scale.yaml"],
)
def test_a_grid_is_made_once_and_taken_away_without_its_data(spec: str, tmp_path: Path) -> None:
    roots = raised(EXAMPLES / spec, tmp_path)
    assert roots.plan("storage") == roots.plan("grid") == {}
    made = {each["type"] for each in roots.cloud().values()}
    assert "oci_core_instance" in made
    roots.run("grid", "destroy", "-auto-approve")
    left = {each["type"] for each in roots.cloud().values()}
    assert not left & {"oci_core_instance", "oci_core_volume_attachment", "oci_objectstorage_object"}
    with pytest.raises(TofuError, match="prevent_destroy"):
        roots.run("storage", "destroy", "-auto-approve")
    assert {each["type"] for each in roots.cloud().values()} == left


@pytest.mark.parametrize("name", matrix())
def test_every_spec_of_the_matrix_is_made_once(name: str, tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text(json.dumps(matrix()[name]))
    roots = raised(tmp_path / "grid.yaml", tmp_path)
    assert roots.plan("storage") == roots.plan("grid") == {}


def test_a_grid_made_again_finds_its_volumes(roots: TofuRoots) -> None:
    def volumes() -> dict[str, Any]:
        return {key: each for key, each in roots.cloud().items() if each["type"] == "oci_core_volume"}

    before = volumes()
    roots.run("grid", "destroy", "-auto-approve")
    assert roots.plan("grid")
    roots.apply("grid")
    assert volumes() == before
    attached = [each for each in roots.cloud().values() if each["type"] == "oci_core_volume_attachment"]
    assert {each["values"]["volume_id"] for each in attached} == set(before)


def test_another_node_makes_nothing_anew(roots: TofuRoots) -> None:
    spec = roots.cloud_file.with_name("more.yaml")
    spec.write_text(_with_one_node_more(SCALE.read_text()))
    render(spec, roots.rendered)
    # The lock file is as rendered again: until `init` has read it, nothing is planned.
    with pytest.raises(TofuError, match="dependency lock file"):
        roots.plan("storage")
    for root in ("storage", "grid"):
        roots.validate(root)
    roots.hand_over()
    assert roots.plan("storage") == {}
    changes = roots.plan("grid")
    created = [address for address, does in changes.items() if does == ["create"]]
    assert "oci_core_instance.compute5" in created
    assert not [address for address, does in changes.items() if "delete" in does and "_instance." in address]


def _with_one_node_more(text: str) -> str:
    wanted = "VM.DenseIO.E5.Flex(24), count: 4"
    assert text.count(wanted) == 1
    return text.replace(wanted, wanted.replace("count: 4", "count: 5"))


def test_a_volume_that_somebody_changed_is_seen(roots: TofuRoots) -> None:
    (ocid, volume) = next(
        (key, each) for key, each in roots.cloud().items() if each["type"] == "oci_core_volume"
    )
    roots.change(ocid, vpus_per_gb="20")
    (changes,) = roots.plan("storage").items()
    assert volume["values"]["display_name"] in changes[0]
    assert changes[1] == ["update"]


def first(root: dict[str, Any], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(iter(root["resource"][kind].values()))
    return found


def storage_in_another_domain(root: dict[str, Any]) -> None:
    for each in root["resource"]["oci_core_volume"].values():
        each["availability_domain"] = each["availability_domain"].replace("[0]", "[1]")


def test_volumes_are_not_moved_to_another_domain(roots: TofuRoots) -> None:
    edit(roots, "storage", storage_in_another_domain)
    with pytest.raises(TofuError, match="prevent_destroy"):
        roots.plan("storage")


def edit(roots: TofuRoots, root: str, change: Callable[[dict[str, Any]], None]) -> None:
    file = roots.rendered / root / "main.tf.json"
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


def not_shareable(root: dict[str, Any]) -> None:
    for each in root["resource"]["oci_core_volume_attachment"].values():
        each["is_shareable"] = False


def two_at_one_device(root: dict[str, Any]) -> None:
    for each in root["resource"]["oci_core_volume_attachment"].values():
        each["device"] = "/dev/oracleoci/oraclevdb"


def machines_in_another_domain(root: dict[str, Any]) -> None:
    for each in root["resource"]["oci_core_instance"].values():
        each["availability_domain"] = "Uocm:US-ASHBURN-AD-2"


def two_at_one_address(root: dict[str, Any]) -> None:
    cards = [each["create_vnic_details"][0] for each in root["resource"]["oci_core_instance"].values()]
    for each in cards:
        each["private_ip"] = cards[0]["private_ip"]
        each["subnet_id"] = cards[0]["subnet_id"]


def public_address_in_a_private_subnet(root: dict[str, Any]) -> None:
    for each in root["resource"]["oci_core_instance"].values():
        each["create_vnic_details"][0]["assign_public_ip"] = "true"


def shape_without_its_size(root: dict[str, Any]) -> None:
    for each in root["resource"]["oci_core_instance"].values():
        each.pop("shape_config", None)


def statement_with_a_verb_of_nobody(root: dict[str, Any]) -> None:
    policy = first(root, "oci_identity_policy")
    policy["statements"] = [each.replace(" to ", " to please ") for each in policy["statements"]]


WRONG: dict[Callable[[dict[str, Any]], None], str] = {
    not_shareable: "is attached, and not shareable",
    two_at_one_device: "is taken",
    machines_in_another_domain: "is in Uocm:US-ASHBURN-AD-1, instance",
    two_at_one_address: "is that of ocid1",
    public_address_in_a_private_subnet: "allows no public address",
    shape_without_its_size: "with shape_config",
    statement_with_a_verb_of_nobody: "the policy cannot be parsed",
}


@pytest.mark.parametrize("change", WRONG, ids=lambda each: each.__name__)
def test_what_oci_refuses_is_refused(roots: TofuRoots, change: Callable[[dict[str, Any]], None]) -> None:
    """Else the roots that pass would show nothing."""
    roots.run("grid", "destroy", "-auto-approve")
    edit(roots, "grid", change)
    roots.plan("grid")
    with pytest.raises(TofuError, match=WRONG[change]):
        roots.apply("grid")


def test_a_name_that_the_provider_does_not_take_is_refused(roots: TofuRoots) -> None:
    def misspell(root: dict[str, Any]) -> None:
        first(root, "oci_core_volume_attachment")["is_sharable"] = True

    edit(roots, "grid", misspell)
    with pytest.raises(TofuError, match="is_sharable"):
        roots.run("grid", "validate")
