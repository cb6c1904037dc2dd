"""The user's own catalog.yaml and catalog.csv go first; what is wrong with them is told with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gridwright.catalog import load_catalog
from gridwright.catalog.facts import DATA
from gridwright.catalog.instances import INSTANCE_COLUMNS
from gridwright.errors import ExitStatus, GridwrightError, Problem
from tests.support.examples import examples

GIB = 2**30


def written(directory: Path, text: str) -> Path:
    (directory / "catalog.yaml").write_text(text)
    return directory


def problems(directory: Path, text: str) -> tuple[Problem, ...]:
    with pytest.raises(GridwrightError) as caught:
        load_catalog(written(directory, text))
    assert caught.value.status == ExitStatus.INPUT
    return caught.value.problems


def test_own_prices_go_first_and_bring_new_regions(tmp_path: Path) -> None:
    text = """
source: our contract
date: 2026-11
prices:
  instances:
    us-east-1: {m5n.8xlarge: 1.25}
    our-cellar: {m5n.8xlarge: 0.5}
  storage:
    eu-west-1:
      gp3: {capacity: 0.088, iops: 0.0055, throughput: 0.044}
      persistent-2: {125: 0.16}
"""
    catalog = load_catalog(written(tmp_path, text))
    price = catalog.instance_price("m5n.8xlarge", "us-east-1")
    assert price
    assert (price.usd, str(price.source)) == (1.25, "our contract, 2026-11")
    assert catalog.instance_usd_per_hour("m5n.large", "us-east-1") == 0.119
    assert catalog.instance_usd_per_hour("m5n.8xlarge", "our-cellar") == 0.5
    assert catalog.instance_usd_per_hour("m5n.large", "our-cellar") is None
    assert "our-cellar" in catalog.regions()
    gp3 = catalog.volumes["gp3"].usd_per_hour(1000 * GIB, "eu-west-1", iops=4000) * 730
    assert gp3 == pytest.approx(88 + 5.5)
    lustre = catalog.managed["persistent-2"].usd_per_hour(1200 * GIB, 125e6, "eu-west-1") * 730
    assert lustre == pytest.approx(1200 * 0.16)


def test_own_prices_of_gateways_and_addresses(tmp_path: Path) -> None:
    text = "prices:\n  services:\n    eu-west-1: {nat-gateway: 0.048}\n    us-east-1: {nat-gateway: 0.04}\n"
    services = load_catalog(written(tmp_path, text)).services
    assert services.usd("nat-gateway", "eu-west-1") == 0.048
    assert services.usd("nat-gateway", "us-east-1") == 0.04
    assert services.usd("public-address", "us-east-1") == load_catalog().services.usd(
        "public-address", "us-east-1"
    )
    assert services.usd("public-address", "eu-west-1") == pytest.approx(0.005 * 1.115, rel=0.001)
    (wrong,) = problems(tmp_path, "prices:\n  services:\n    eu-west-1: {nat-gatewy: 0.048}\n")
    assert "nat-gateway" in (wrong.remedy or "")


def test_a_private_type(tmp_path: Path) -> None:
    text = """
instances:
  our.big:
    provider: aws
    cores: 32
    memory: 512 GiB
    network: 3125 MB/s
    network_peak: 6250 MB/s
    nics: 2
    volumes: {rate: 2 GB/s, iops: 80000}
    instance_store: {disks: 4, disk_size: 3840 GB, write: 8 GB/s, read: 20 GB/s}
prices:
  instances:
    us-east-1: {our.big: 4}
"""
    catalog = load_catalog(written(tmp_path, text))
    found = catalog.instance("our.big", "aws")
    assert (found.cores, found.vcpus, found.memory_bytes, found.family) == (32, 64, 512 * GIB, "our")
    assert (found.network.baseline_bytes_per_s, found.network.nics) == (3125e6, 2)
    assert found.ebs
    assert (found.ebs.baseline_bytes_per_s, found.ebs.dedicated) == (2e9, True)
    assert found.instance_store
    assert found.instance_store.total_bytes == 4 * 3840 * 10**9
    assert found.instance_store.read_bytes_per_s == 20e9
    assert str(tmp_path) in found.source.text
    assert catalog.instance_usd_per_hour("our.big", "us-east-1") == 4


def test_a_listed_type_can_be_corrected_in_one_point(tmp_path: Path) -> None:
    catalog = load_catalog(written(tmp_path, "instances:\n  m5n.8xlarge: {network: 4225 MB/s}\n"))
    listed = load_catalog().instance("m5n.8xlarge")
    found = catalog.instance("m5n.8xlarge")
    assert found.network.baseline_bytes_per_s == 4225e6
    assert (found.cores, found.ebs, found.network.measured) == (
        listed.cores,
        listed.ebs,
        listed.network.measured,
    )


def test_all_problems_are_told_at_once_each_with_its_place(tmp_path: Path) -> None:
    text = """prices:
  instances:
    us-east-1: {m5n.9xlarge: 1, m5n.large: much}
  storage:
    us-east-1:
      gp4: {capacity: 1}
      gp3: {capcity: 1}
instances:
  our.big: {cores: 0, memory: 1 Gb}
"""
    found = problems(tmp_path, text)
    places = {each.field: (each.where or "").rpartition("catalog.yaml:")[2] for each in found}
    assert places == {
        "instances.our.big": "9:12",
        "instances.our.big.cores": "9:20",
        "instances.our.big.memory": "9:31",
        "prices.instances.us-east-1.m5n.9xlarge": "3:17",
        "prices.instances.us-east-1.m5n.large": "3:44",
        "prices.storage.us-east-1.gp4": "6:7",
        "prices.storage.us-east-1.gp3.capcity": "7:13",
    }
    text = "\n".join(str(each) for each in found)
    text = text.lower()
    assert "provider, network" in text
    assert "did you mean gp3?" in text
    assert "did you mean capacity?" in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a\n", "a mapping of fields"),
        ("prices: {instances: [1]}\n", "instances must be a mapping"),
        ("instances: {m5n.large: {cores: [1]}}\n", "must be a whole number"),
        ("instances: {m5n.large: {network: 10 Gbit/s}}\n", "rite 1.25 GB/s"),
        ("instances: {m5n.large: {network: 0 MB/s}}\n", "is not a rate"),
        ("instances: {m5n.large: {volumes: {shared: maybe}}}\n", "true or false"),
        ("instances: {m5n.large: {instance_store: {nvme: true}}}\n", "lacks disks or disk_size"),
        ("instances: {m5n.large: {cores: 1, cores: 2}}\n", "given twice"),
        ("prices: {instances: {us-east-1: {m5n.large: -1}}}\n", "must be at least 0, and -1 is given"),
        ("prices: {instances: {us-east-1: {m5n.large: .nan}}}\n", 'must be a number, and ".nan" is given'),
        ("price: {}\n", "Did you mean prices?"),
        ("a: {b: 1\n", "the { opened here is not closed"),
        ("a: *b\n", "names no anchor"),
        ("a: b\n---\nc: d\n", "a second YAML document"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, said: str) -> None:
    assert said in "\n".join(str(each) for each in problems(tmp_path, text))


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "catalog.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(GridwrightError, match="UTF-16"):
        load_catalog(tmp_path)


@settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.text(alphabet="abinpst: {}[],-\n\t&*!|>'\"0.#", max_size=60))
def test_any_text_is_read_or_refused_in_words(tmp_path: Path, text: str) -> None:
    try:
        load_catalog(written(tmp_path, text))
    except GridwrightError as error:
        assert all("catalog.yaml" in (each.where or "") for each in error.problems)


def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    assert len(load_catalog(written(tmp_path, "# nothing yet\n")).instances) == len(load_catalog().instances)


def packaged_row(name: str) -> str:
    rows = (DATA / "instances.csv").read_text().splitlines()
    return next(row for row in rows if row.startswith(f"{name},"))


def test_a_refreshed_file_goes_before_the_packaged_facts_and_after_the_users_own(tmp_path: Path) -> None:
    newer = packaged_row("m5n.large").replace("m5n.large,aws,m5n,1,2", "m5n.large,aws,m5n,2,2")
    head = ",".join((*INSTANCE_COLUMNS, "us-east-1"))
    (tmp_path / "catalog.csv").write_text(f"{head}\n{newer},0.2\n")
    catalog = load_catalog(tmp_path)
    assert catalog.instance("m5n.large").cores == 2
    assert catalog.instance_usd_per_hour("m5n.large", "us-east-1") == 0.2
    assert catalog.instance_usd_per_hour("m5n.xlarge", "us-east-1") == 0.238
    written(tmp_path, "prices: {instances: {us-east-1: {m5n.large: 0.1}}}\n")
    assert load_catalog(tmp_path).instance_usd_per_hour("m5n.large", "us-east-1") == 0.1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name,cores\nx,1\n", "other columns"),
        (f"{','.join(INSTANCE_COLUMNS)}\nm5n.large,aws\n", "catalog.csv:2"),
        (f"{','.join(INSTANCE_COLUMNS)}\n{packaged_row('m5n.large')},extra\n", "catalog.csv:2"),
        ("", "other columns"),
    ],
)
def test_a_damaged_refreshed_file_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "catalog.csv").write_text(text)
    with pytest.raises(GridwrightError) as caught:
        load_catalog(tmp_path)
    assert said in str(caught.value)
    assert "gridwright catalog refresh" in str(caught.value)
