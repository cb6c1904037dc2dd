"""up --check of a grid on OCI, by the real SDK against the double's services."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gridwright.errors import GridwrightError
from gridwright.providers import provider_of
from gridwright.providers.oci.layout import oci_layout
from gridwright.providers.provider import Caller, Preflight
from gridwright.spec.load import load_spec
from gridwright.spec.model import GridSpec
from tests.support.oci_cloud.account import DOMAINS
from tests.support.oci_cloud.listings import TYPES
from tests.support.oci_cloud.server import OciDouble, resource
from tests.support.oci_cloud.signed_in import signed_in

EXAMPLE = Path(__file__).parents[2] / "examples" / "oci-scale.yaml"
MANAGED = EXAMPLE.with_name("oci-managed-lustre.yaml")


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OciDouble]:
    with signed_in(tmp_path, monkeypatch) as double:
        yield double


def spec_with(tmp_path: Path, **oci: Any) -> GridSpec:
    from ruamel.yaml import YAML

    yaml = YAML()
    data = yaml.load(EXAMPLE.read_text(encoding="utf-8"))
    data["oci"] |= oci
    with (tmp_path / "grid.yaml").open("w", encoding="utf-8") as file:
        yaml.dump(data, file)
    return load_spec(tmp_path / "grid.yaml")


def check(spec: GridSpec) -> Preflight:
    return provider_of(spec).preflight(spec)


def names(found: Preflight) -> set[str]:
    return {each.name for each in found.findings}


def test_nothing_against_it_and_nothing_made(cloud: OciDouble) -> None:
    found = check(load_spec(EXAMPLE))
    assert found.is_fit, found.text()
    assert not found.findings, found.text()
    assert found.facts["availability domain"] == DOMAINS[0]
    figures = {each.name: each for each in found.figures}
    volumes = figures["total-storage-gb"]
    # 40 block volumes of the pairs, and a boot volume for each of 10 machines.
    assert volumes.needed == 40 * 1024 + 10 * 50
    assert figures["volume-count"].needed == 50
    assert not any(each.startswith(("PUT", "DELETE")) for each in cloud.asked)
    posts = {each for each in cloud.asked if each.startswith("POST")}
    assert posts <= {"POST /20160918/computeCapacityReports", "POST /20180409/resources"}


def test_all_that_is_wrong_is_told_at_once_and_up_makes_nothing(cloud: OciDouble) -> None:
    spec = load_spec(EXAMPLE)
    shapes = {each["instanceShape"] for each in ask_for_capacity(cloud, spec)}
    account = cloud.account
    account.regions = {"eu-frankfurt-1": "READY", "us-ashburn-1": "IN_PROGRESS"}
    account.compartment = "DELETED"
    node = next(each for each in shapes if each.startswith("VM.") and "Standard" not in each)
    server = next(each for each in shapes if each.startswith("BM."))
    account.free[server, "FAULT-DOMAIN-2"] = 0
    account.free[node, "FAULT-DOMAIN-1"] = 1
    account.without_images.add(node)
    account.left["total-storage-gb"] = 41_459
    account.left["volume-count"] = 50
    found = check(spec)
    assert names(found) == {
        "region-not-subscribed",
        "compartment-not-active",
        "no-capacity",
        "image-unknown",
        "quota-too-small",
    }, found.text()
    text = found.text()
    assert "eu-frankfurt-1" in text
    assert f"has none of the 1 {server}" in text
    assert "total-storage-gb" in text
    assert "leaves 41459 GB" in text
    assert not any("volume-count" in each.text for each in found.findings)
    with pytest.raises(GridwrightError, match="no-capacity") as raised:
        provider_of(spec).up(spec, Caller())
    assert len(raised.value.problems) == len([each for each in found.findings if each.level == "error"])
    assert not cloud.stacks
    assert not cloud.resources


def ask_for_capacity(cloud: OciDouble, spec: GridSpec) -> list[dict[str, Any]]:
    """What the grid asks of free capacity."""
    check(spec)
    asked: list[dict[str, Any]] = cloud.account.reported.pop()["shapeAvailabilities"]
    return asked


def test_sizes_and_shapes_that_are_not_sold_there(cloud: OciDouble) -> None:
    spec = load_spec(EXAMPLE)
    flexible = next(each for each in ask_for_capacity(cloud, spec) if "Flex" in each["instanceShape"])
    shape = flexible["instanceShape"]
    wanted = flexible["instanceShapeConfig"]["ocpus"]
    cloud.account.shapes[shape]["ocpuOptions"] = {"min": 1.0, "max": wanted - 0.5}
    (found, *_) = check(spec).findings
    assert found.name == "shape-size-not-offered"
    assert f"{wanted:g}" in found.text
    del cloud.account.shapes[shape]
    found_all = check(spec)
    assert names(found_all) == {"shape-not-offered"}, found_all.text()


def test_a_domain_that_the_region_lacks(cloud: OciDouble, tmp_path: Path) -> None:
    cloud.account.domains = DOMAINS[:1]
    found = check(spec_with(tmp_path, availability_domain=3))
    assert names(found) == {"no-such-availability-domain"}
    assert "availability_domain: 1" in found.text()


def test_the_sites_own_network(cloud: OciDouble, tmp_path: Path) -> None:
    vcn = "ocid1.vcn.oc1.iad.aaaa"
    subnets = {name: f"ocid1.subnet.oc1.iad.{name}" for name in ("public", "fs", "storage")}
    given = {"public": "10.40.0.0/24", "fs": "10.40.128.0/17", "storage": "10.40.64.0/18"}
    own = {"id": vcn, "network": "10.40.0.0/16", "ranges": given, "subnets": subnets}
    spec = spec_with(tmp_path, vcn=own)
    assert names(check(spec)) == {"network-unknown"}
    account = cloud.account
    account.vcns[vcn] = {}
    account.subnets = {
        subnets[name]: {"vcnId": vcn, "cidrBlock": given[name], "prohibitPublicIpOnVnic": False}
        for name in subnets
    }
    assert not check(spec).findings, check(spec).text()
    account.subnets[subnets["public"]]["prohibitPublicIpOnVnic"] = True
    account.subnets[subnets["fs"]] |= {"cidrBlock": "10.40.128.0/18", "availabilityDomain": DOMAINS[2]}
    account.subnets[subnets["storage"]] |= {
        "vcnId": "ocid1.vcn.oc1.iad.other",
        "lifecycleState": "TERMINATED",
    }
    found = check(spec)
    assert names(found) == {"subnet-unfit"}
    assert len(found.findings) == 5, found.text()


def test_an_image_of_the_sites_own(cloud: OciDouble, tmp_path: Path) -> None:
    image = "ocid1.image.oc1.iad.aaaa"
    spec = spec_with(tmp_path, image=image)
    assert names(check(spec)) == {"image-unknown"}
    shapes = {each["instanceShape"] for each in ask_for_capacity(cloud, spec)}
    cloud.account.images[image] = {"shapes": sorted(shapes)}
    assert not check(spec).findings
    cloud.account.images[image] = {"shapes": sorted(shapes)[1:], "lifecycleState": "DISABLED"}
    assert names(check(spec)) == {"image-of-another-architecture", "image-not-available"}


@pytest.mark.thorough
def test_a_reservation_with_too_little_room(cloud: OciDouble, tmp_path: Path) -> None:
    ocid = "ocid1.capacityreservation.oc1.iad.aaaa"
    spec = spec_with(tmp_path, capacity_reservation=ocid)
    assert names(check(spec)) == {"reservation-unfit"}
    cloud.account.reservations[ocid] = {"reservedInstanceCount": 6, "usedInstanceCount": 2}
    cloud.account.reported.clear()
    assert not check(spec).findings, check(spec).text()
    asked = {each["instanceShape"] for each in cloud.account.reported[0]["shapeAvailabilities"]}
    assert not any("DenseIO" in each for each in asked), "what is reserved is not asked for"
    cloud.account.reservations[ocid] |= {"usedInstanceCount": 3, "availabilityDomain": DOMAINS[1]}
    found = check(spec)
    assert len(found.findings) == 2
    assert "room for 3 machines, and 4 nodes" in found.text()


@pytest.mark.thorough
def test_an_image_of_file_servers_is_asked_for_their_shapes_alone(cloud: OciDouble, tmp_path: Path) -> None:
    """The platform image of the others is looked for as well."""
    image = "ocid1.image.oc1.iad.aaaaservers"
    spec = spec_with(tmp_path, server_image=image)
    layout = oci_layout(spec)
    servers = {each.shape for each in layout.machines if each.role.is_server}
    others = {each.shape for each in layout.machines if not each.role.is_server}
    cloud.account.images[image] = {"shapes": sorted(servers)}
    assert names(check(spec)) == set()
    cloud.account.without_images |= servers - others
    assert names(check(spec)) == set()
    cloud.account.images[image] = {"shapes": sorted(others - servers)}
    assert names(check(spec)) == {"image-of-another-architecture"}


def test_what_may_not_be_seen_is_said_and_refuses_nothing(cloud: OciDouble) -> None:
    cloud.account.hidden = {"services", "computeCapacityReports", "compartments", "shapes"}
    found = check(load_spec(EXAMPLE))
    assert found.is_fit
    assert names(found) == {"not-looked-at"}
    assert {each.text.partition(":")[0] for each in found.findings} == {
        "the compartment",
        "shapes",
        "free capacity",
        "limits",
    }
    assert not found.figures


def test_limits_of_the_whole_region_are_asked_for_as_such(cloud: OciDouble) -> None:
    cloud.account.regional = {"volume-count"}
    cloud.account.left["volume-count"] = 3
    assert names(check(load_spec(EXAMPLE))) == {"quota-too-small"}


@pytest.mark.thorough
def test_limits_of_what_is_made_beside_machines(cloud: OciDouble) -> None:
    spec = load_spec(MANAGED)
    found = check(spec)
    assert not found.findings, found.text()
    needed = {each.code: each.needed for each in found.figures}
    assert needed["vcn/vcn-count"] == 1
    assert needed["filesystem/file-system-count"] == 2, "two file systems"
    assert needed["filesystem/mount-target-count"] == 1, "behind one mount target"
    assert needed["lustrefilestorage/max-lustre-file-system-count"] == 1
    cloud.account.regional = {"vcn-count"}
    cloud.account.left = {"vcn-count": 0, "mount-target-count": 0, "max-lustre-file-system-count": 0}
    assert names(check(spec)) == {"quota-too-small"}
    assert len(check(spec).findings) == 3
    # What is there already is the grid's own, and is not needed a second time.
    tags = {"freeform_tags": {"gridwright-grid": spec.name}}
    for kind in TYPES.values():
        cloud.resources[kind] = resource(kind, kind, tags)
    codes = {each.code: each.needed for each in check(spec).figures}
    assert codes["filesystem/file-system-count"] == 1
    assert "vcn/vcn-count" not in codes


@pytest.mark.thorough
def test_who_may_not_list_may_hardly_make(cloud: OciDouble, tmp_path: Path) -> None:
    asked = {**TYPES, "b": "oci_objectstorage_bucket"}
    cloud.account.hidden = set(asked)
    found = check(load_spec(MANAGED))
    assert found.is_fit, "it may be that a policy lets make what it hides"
    assert names(found) == {"rights-missing"}
    assert len(found.findings) == len(asked) - 2, "no bastion service, no placement group"
    assert "manage dynamic-groups in tenancy" in found.text()
    assert "manage object-family in compartment NAME" in found.text()
    found = check(spec_with(tmp_path, bastion="service", cluster_placement=True))
    assert {"manage bastion-family", "manage cluster-placement-groups"} <= set(
        re.findall(r"manage [a-z-]+", found.text())
    )


KEY = "ocid1.key.oc1.iad.markofvault.abuwcljr"


@pytest.mark.thorough
def test_the_vaults_key(cloud: OciDouble, tmp_path: Path) -> None:
    spec = spec_with(tmp_path, key=KEY)
    keys = cloud.account.keys
    assert names(check(spec)) == {"not-looked-at"}
    keys[KEY] = {"state": "ENABLED", "algorithm": "AES"}
    assert not check(spec).findings, check(spec).text()
    keys[KEY] = {"state": "PENDING_DELETION", "algorithm": "RSA"}
    found = check(spec)
    assert names(found) == {"key-unfit"}
    assert "pending deletion" in found.text()
    assert "RSA" in found.text()
    keys[KEY] = {"state": "ENABLED", "algorithm": "AES"}
    cloud.account.shows_vaults = False
    assert names(check(spec)) == {"not-looked-at"}
    elsewhere = check(spec_with(tmp_path, key=KEY.replace(".iad.", ".eu-frankfurt-1.")))
    assert names(elsewhere) == {"key-unfit"}
    assert "in eu-frankfurt-1, and the grid in us-ashburn-1" in elsewhere.text()


def test_bad_credentials_and_throttling(cloud: OciDouble) -> None:
    spec = load_spec(EXAMPLE)
    cloud.expired = True
    with pytest.raises(GridwrightError, match="does not accept the credentials"):
        check(spec)
    cloud.expired, cloud.throttled = False, 1
    assert check(spec).is_fit


def test_a_missing_tool_and_a_grid_that_is_there(
    cloud: OciDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = check(spec_with(tmp_path, deploy="tofu"))
    assert names(found) == {"deployer-unfit"}
    assert "tofu is not on this machine" in found.text()
