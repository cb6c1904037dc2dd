"""The packaged facts: complete, plausible, each with its source, and right about the known quirks."""

from __future__ import annotations

import re

import pytest

from gridwright.catalog import Catalog, load_catalog
from gridwright.catalog.facts import doubts_in, rows
from gridwright.catalog.managed import OfferPrice, offer_price
from gridwright.catalog.refresh import PART_COLUMNS

GBIT = 125e6


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def test_the_catalogue_holds_more_than_1300_types_of_both_providers(catalog: Catalog) -> None:
    providers = [each.provider for each in catalog.instances.values()]
    assert providers.count("aws") > 1300
    assert providers.count("oci") > 40


def test_every_type_is_usable_and_says_who_says_so(catalog: Catalog) -> None:
    for name, each in catalog.instances.items():
        assert each.name == name
        assert 0 < each.cores <= each.vcpus <= 2 * each.cores, name
        assert each.memory_bytes >= 2**28, name
        assert 0 < each.network.baseline_bytes_per_s <= each.network.peak_bytes_per_s, name
        assert each.network.nics >= 1, name
        assert each.source.text, name
        assert re.match(r"20\d\d", each.source.date), name
        if each.ebs:
            assert 0 < each.ebs.baseline_bytes_per_s <= each.ebs.maximum_bytes_per_s, name
        if each.instance_store:
            assert each.instance_store.disks >= 1, name
            assert each.instance_store.total_bytes > 0, name


def test_a_listed_rate_of_local_disks_has_a_source_and_is_none_of_the_papers(catalog: Catalog) -> None:
    rated = [
        each.instance_store
        for each in catalog.instances.values()
        if each.instance_store and each.instance_store.write_bytes_per_s
    ]
    assert len(rated) > 180
    for store in rated:
        assert store.source
        assert "00" not in store.source.partition("(")[0]


def test_types_with_an_adapter_are_types_of_aws_with_a_fast_network(catalog: Catalog) -> None:
    from gridwright.catalog.instances import efa_types

    assert len(efa_types()) > 200
    for name in efa_types():
        each = catalog.instances[name]
        assert each.provider == "aws"
        assert each.network.peak_bytes_per_s >= 12.5 * GBIT, name
    assert "m5n.24xlarge" in efa_types()
    assert "m5n.8xlarge" not in efa_types()


def test_prices_beside_machines_have_a_unit_and_a_source(catalog: Catalog) -> None:
    services = catalog.services
    assert {"nat-gateway", "public-address", "load-balancer", "fsx-metadata"} <= set(services.units)
    for item, regions in services.by_item.items():
        assert services.units[item] in ("USD/h", "USD/IOPS-month", "USD/GB-month", "USD/GB")
        for price in regions.values():
            assert 0 < price.usd < 1
            assert price.source.text
            assert re.match(r"20\d\d", price.source.date)


@pytest.mark.parametrize(
    ("name", "cores", "baseline", "peak", "nics"),
    [
        ("m5n.8xlarge", 16, 25, 25, 1),
        ("m5n.large", 1, 2.1, 25, 1),
        ("i2.8xlarge", 16, 10, 10, 1),
        ("c3.8xlarge", 16, 5, 10, 1),
        ("i3.metal", 36, 25, 25, 1),
        ("m6in.32xlarge", 64, 200, 200, 2),
        ("g6e.48xlarge", 96, 400, 400, 4),
        ("p5.48xlarge", 96, 800, 800, 32),
        ("c7g.16xlarge", 64, 30, 30, 1),
        ("VM.DenseIO2.24", 24, 24.6, 24.6, 1),
        ("BM.Standard2.52", 52, 50, 50, 2),
    ],
)
def test_cores_and_networks(
    catalog: Catalog, name: str, cores: int, baseline: float, peak: float, nics: int
) -> None:
    found = catalog.instance(name)
    assert found.cores == cores
    assert found.network.baseline_bytes_per_s == pytest.approx(baseline * GBIT)
    assert found.network.peak_bytes_per_s == pytest.approx(peak * GBIT)
    assert found.network.nics == nics


@pytest.mark.parametrize("name", ["c3.8xlarge", "r3.8xlarge"])
def test_two_old_types_pass_more_in_a_placement_group(catalog: Catalog, name: str) -> None:
    assert catalog.instance(name).placement_bytes_per_s == 10 * GBIT


def test_only_those_two_do(catalog: Catalog) -> None:
    found = {each.name for each in catalog.instances.values() if each.placement_bytes_per_s}
    assert found == {"c3.8xlarge", "r3.8xlarge"}


@pytest.mark.parametrize("name", ["i2.8xlarge", "c3.8xlarge", "r3.8xlarge", "t2.large", "m3.medium"])
def test_volume_traffic_shares_the_network_where_no_path_of_its_own_exists(
    catalog: Catalog, name: str
) -> None:
    found = catalog.instance(name)
    assert found.ebs
    assert not found.ebs.dedicated
    assert found.ebs.baseline_bytes_per_s == found.network.baseline_bytes_per_s


def test_volume_bandwidth_is_in_decimal_megabytes(catalog: Catalog) -> None:
    found = catalog.instance("m5n.8xlarge").ebs
    assert found
    assert found.dedicated
    assert (found.baseline_bytes_per_s, found.baseline_iops) == (850e6, 30_000)


def test_a_path_to_volumes_that_must_be_asked_for_is_marked(catalog: Catalog) -> None:
    found = catalog.instance("c3.4xlarge").ebs
    assert found
    assert found.dedicated
    assert found.optional


def test_oracle_volumes_share_the_network_up_to_their_own_limit(catalog: Catalog) -> None:
    found = catalog.instance("BM.Standard2.52").ebs
    assert found
    assert not found.dedicated
    assert found.baseline_bytes_per_s == 3000e6


def test_measured_rates_stand_beside_the_listed_ones(catalog: Catalog) -> None:
    found = catalog.instance("m5n.8xlarge").network
    assert found.measured
    assert found.measured.bytes_per_s == pytest.approx(4225.55157e6)
    assert found.measured.source == "002.t2.m5n.8xlarge"
    assert catalog.instance("m5n.xlarge").network.burst_s == 600


def test_most_measured_rates_are_near_the_listed_ones(catalog: Catalog) -> None:
    ratios = [
        each.network.measured.bytes_per_s / each.network.baseline_bytes_per_s
        for each in catalog.instances.values()
        if each.network.measured
    ]
    assert len(ratios) == 58
    assert sorted(ratios)[29] == pytest.approx(0.99, abs=0.01)


def test_types_that_have_no_measured_rate_get_none(catalog: Catalog) -> None:
    assert catalog.instance("r5n.8xlarge").network.measured is None


def test_measured_disks_are_kept_beside_the_listed_ones(catalog: Catalog) -> None:
    store = catalog.instance("VM.DenseIO2.24").instance_store
    assert store
    found = {each.operation: each.bytes_per_s for each in store.measured}
    assert found == pytest.approx({"read": 24 * 320.01 * 2**20, "write": 24 * 194.43 * 2**20})
    assert store.write_bytes_per_s == pytest.approx(843_000 * 4096)
    assert store.read_bytes_per_s is None


@pytest.mark.parametrize("family", ["i3en", "m5dn", "r5dn"])
def test_listed_disk_rates_are_a_floor_of_the_measured_family_means(catalog: Catalog, family: str) -> None:
    stores = [
        (each.instance_store, each.cores) for each in catalog.instances.values() if each.family == family
    ]
    for store, cores in stores:
        assert store
        (measured,) = store.measured
        assert measured.per_core
        assert store.write_bytes_per_s
        assert 0.8 < store.write_bytes_per_s / cores / measured.bytes_per_s < 1.05


def test_accelerated_types_are_marked(catalog: Catalog) -> None:
    marked = ("p5.48xlarge", "g6f.large", "inf2.xlarge", "trn2u.48xlarge", "f2.6xlarge", "dl1.24xlarge")
    assert all(catalog.instance(name).accelerators for name in marked)
    assert not any(catalog.instance(name).accelerators for name in ("m5n.large", "i3en.metal", "c7g.large"))


def test_no_mac_is_offered(catalog: Catalog) -> None:
    assert not [name for name in catalog.instances if name.startswith("mac")]


def test_flexible_shapes_come_in_sizes(catalog: Catalog) -> None:
    found = catalog.instance("VM.Standard3.Flex(8)")
    assert (found.cores, found.memory_bytes, found.family) == (8, 128 * 2**30, "VM.Standard3")
    assert found.network.baseline_bytes_per_s == 8 * GBIT


@pytest.mark.parametrize(("name", "adapter"), [("hpc7a.96xlarge", 300), ("hpc7g.16xlarge", 200)])
def test_the_rate_of_an_adapter_is_no_rate_over_tcp(catalog: Catalog, name: str, adapter: float) -> None:
    network = catalog.instance(name).network
    assert network.baseline_bytes_per_s == network.peak_bytes_per_s == 25 * GBIT
    assert network.adapter_bytes_per_s == adapter * GBIT
    assert network.over_tcp
    assert catalog.instance("m5n.24xlarge").network.adapter_bytes_per_s is None


@pytest.mark.parametrize("name", ["p5.48xlarge", "p5e.48xlarge"])
def test_a_part_of_the_adapters_rate_carries_tcp(catalog: Catalog, name: str) -> None:
    network = catalog.instance(name).network
    assert network.baseline_bytes_per_s == network.peak_bytes_per_s == 800 * GBIT
    assert network.adapter_bytes_per_s == 3200 * GBIT


def test_a_size_below_its_familys_tcp_rate_keeps_its_own(catalog: Catalog) -> None:
    network = catalog.instance("p5.4xlarge").network
    assert network.baseline_bytes_per_s == 100 * GBIT
    assert network.adapter_bytes_per_s is None


def test_no_sum_over_many_adapters_passes_for_a_rate_over_tcp(catalog: Catalog) -> None:
    """With eight cards and more EC2 lists what adapters pass together: one node would meet everything."""
    many = [each for each in catalog.instances.values() if each.provider == "aws" and each.network.nics >= 8]
    assert {each.family for each in many} >= {"p5", "p5en", "p6-b300", "trn1n", "trn2"}
    for each in many:
        assert each.network.over_tcp, each.name
        assert each.network.baseline_bytes_per_s <= 800e9 / 8
        assert each.network.adapter_bytes_per_s
        assert each.network.adapter_bytes_per_s > each.network.baseline_bytes_per_s
    small = catalog.instance("trn1.2xlarge").network
    assert small.over_tcp is None, "a size of one card has its own rate"


@pytest.mark.parametrize(
    ("name", "reads", "writes"),
    [
        ("i7ie.48xlarge", 5_200_000, 4_160_000),
        ("c6id.24xlarge", 1_609_996, 805_000),
        ("m8id.96xlarge", 6_439_992, 3_220_008),
        ("m9gd.24xlarge", 2_092_995, 1_046_502),
        ("g6.12xlarge", 312_500, 125_000),
        ("im4gn.8xlarge", 500_000, 400_000),
    ],
)
def test_disks_inside_a_type_have_the_rates_that_ec2_lists(
    catalog: Catalog, name: str, reads: int, writes: int
) -> None:
    store = catalog.instance(name).instance_store
    assert store
    assert (store.read_bytes_per_s, store.write_bytes_per_s) == (reads * 4096, writes * 4096)
    assert "EC2 Instance Types guide" in str(store.source)


def test_every_ssd_inside_an_ec2_type_has_a_rate_and_none_that_is_made_up(catalog: Catalog) -> None:
    stores = {
        each.name: each.instance_store
        for each in catalog.instances.values()
        if each.provider == "aws" and each.instance_store and each.instance_store.medium == "ssd"
    }
    assert len(stores) > 450
    floors = set()
    for name, store in stores.items():
        assert store.read_bytes_per_s, name
        assert store.write_bytes_per_s, name
        assert store.write_bytes_per_s <= store.read_bytes_per_s
        # Flash of any make: neither a digit lost nor one too many.
        per_gb = store.read_bytes_per_s / 4096 / (store.total_bytes / 1e9)
        assert 30 < per_gb < 450, name
        if "floor" in doubts_in(str(store.source)):
            floors.add(catalog.instance(name).family)
    assert floors == {"c3", "c9gd", "f1", "g7", "m3", "p3dn", "r3", "r9gd", "x1", "x1e"}


def test_both_figures_are_kept_where_two_sources_disagree(catalog: Catalog) -> None:
    from gridwright.catalog.basis import disagreement_findings
    from gridwright.catalog.instances import TOLERANCE, networks_elsewhere

    for name, other in networks_elsewhere().items():
        here = catalog.instance(name).network.baseline_bytes_per_s
        assert abs(other.bytes_per_s / here - 1) > TOLERANCE, name
    (finding,) = disagreement_findings(catalog.instance("i7ie.48xlarge"))
    assert "25 GB/s says" in finding.text
    assert "12.5 GB/s says" in finding.text
    assert disagreement_findings(catalog.instance("m5n.8xlarge")) == []


def test_most_types_say_how_many_volumes_they_take(catalog: Catalog) -> None:
    from gridwright.catalog.instances import attachment_limits, free_attachments

    names = {name for name, each in catalog.instances.items() if each.provider == "aws"}
    assert attachment_limits().keys() <= names
    assert len(attachment_limits()) > 0.95 * len(names)
    assert free_attachments("m5n.8xlarge") == 26
    assert free_attachments("VM.DenseIO2.24") is None


def test_managed_offers_have_limits_with_a_source_in_one_unit(catalog: Catalog) -> None:
    assert {each.provider for each in catalog.offers.values()} == {"aws", "azure", "google", "oci"}
    for name, each in catalog.offers.items():
        for fact in each.facts.values():
            assert fact.value > 0, name
            assert re.match(r"20\d\d", fact.source.date), name
    netapp = catalog.offer("azure-netapp-files-ultra")
    assert netapp.figure("read") == 4500 * 2**20
    assert netapp.figure("by_capacity") == pytest.approx(128 * 2**20 / 2**40)
    assert netapp.figure("nconnect") == 8
    assert netapp.figure("client") is None
    assert catalog.offer("google-managed-lustre-125").figure("capacity_min") == 72_000 * 2**30


def test_list_prices_of_managed_offers_are_by_gib_and_say_what_they_rest_on(catalog: Catalog) -> None:
    def price(name: str, region: str = "") -> OfferPrice:
        found = offer_price(catalog.offer(name), catalog.offer_prices[name], region)
        assert found is not None
        assert all(re.match(r"20\d\d", each.date) for each in found.sources)
        return found

    # Oracle lists 0.086 + 250 units of 0.0005 for each GB of 10^9 bytes.
    assert price("oci-lustre-250").usd_per_gib_month == pytest.approx(0.211 * 2**30 / 1e9)
    assert "performance unit" in price("oci-lustre-250").notes[0]
    refreshed = [row for row in rows("oci-parts.csv", PART_COLUMNS) if row[0].startswith("oci-lustre")]
    assert len(refreshed) == 8
    assert {float(units) for _, _, _, units, *_ in refreshed} == {1e9 / 2**30}, "a refresh writes them alike"
    assert price("google-managed-lustre-250", "us-central1").notes == ()
    assert "estimate for europe-west4" in price("google-managed-lustre-250", "europe-west4").notes[0]
    premium = price("azure-netapp-files-premium", "eastus2")
    assert premium.usd_per_hour(2**40, 0) == pytest.approx(0.000403 * 1024, rel=1e-4), (
        "the page's own example"
    )
    assert price("fsx-openzfs", "us-east-1").usd_per_hour(2**40, 1280e6) == pytest.approx(
        (0.09 * 1024 + 0.26 * 1280) / 730
    )
    elastic = price("efs-elastic", "us-east-1")
    assert not elastic.is_whole
    assert elastic.moved_usd_per_hour(2**30, "write") == pytest.approx(0.06 * 3600)
    large = catalog.offer("azure-netapp-files-large")
    assert offer_price(large, catalog.offer_prices[large.name], "eastus2") is None, (
        "goes by its service level"
    )
