"""Fetches specifications and prices from clouds themselves: EC2 with credentials, Oracle's list without.

Makes rows of the catalogue out of what EC2 and AWS's Pricing API answer, whose clients are bounded in time
and tries, and prices out of Oracle's public list. What is not understood is counted, and its packaged facts
stay.
"""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_exponential

from gridwright.catalog.facts import rows
from gridwright.catalog.refreshed import (
    PRICES_FILE,
    PriceRow,
    plain,
    read_price_rows,
    refuse_unreadable,
    refuse_unwritable,
    write_prices,
    write_refreshed,
)
from gridwright.errors import GridwrightError, environment_error, input_error, nearest
from gridwright.own_directories import hold_settings_of_home

Row = dict[str, object]
"""Cells by column of the catalogue's instance types."""

FIXED_RATE = re.compile(r"(?:(\d+)x )?([\d.]+) Gigabit")
"""A network text that names a rate and not a hope: `200 Gigabit`, `4x 100 Gigabit`."""

_MAC = "_mac"


def ec2_row(facts: Mapping[str, Any], source: str, date: str) -> Row | None:
    """Return one type as EC2 lists it; None for Macs, which run no grid.

    Raises KeyError, ValueError when a field is missing or new.
    """
    architecture = facts["ProcessorInfo"]["SupportedArchitectures"][-1]
    if architecture.endswith(_MAC):
        return None
    cpu = facts["VCpuInfo"]
    name = facts["InstanceType"]
    return {
        "name": name,
        "provider": "aws",
        "family": name.partition(".")[0],
        "cores": cpu["DefaultCores"],
        "vcpus": cpu["DefaultVCpus"],
        "memory_bytes": facts["MemoryInfo"]["SizeInMiB"] << 20,
        "architecture": architecture,
        **_network_columns(facts["NetworkInfo"]),
        **_volume_columns(facts["EbsInfo"]),
        **_store_columns(facts.get("InstanceStorageInfo")),
        "current": facts["CurrentGeneration"],
        "accelerators": _accelerators(facts),
        "bare_metal": facts["BareMetal"],
        "burstable_cpu": facts["BurstablePerformanceSupported"],
        "source": source,
        "date": date,
    }


def _network_columns(network: Mapping[str, Any]) -> Row:
    """Rates of all cards together.

    The fields of the cards sometimes repeat the total, so with several cards the text of the
    instance (`200 Gigabit`, `4x 100 Gigabit`) is the total. With one card, a text that names the
    card's peak as a fixed rate above its baseline is the rate inside a placement group
    (c3.8xlarge, r3.8xlarge).
    """
    cards = network["NetworkCards"]
    fixed = FIXED_RATE.fullmatch(network["NetworkPerformance"])
    total = float(fixed[2]) * int(fixed[1] or 1) if fixed else None
    if len(cards) > 1:
        if total is None:
            raise ValueError(f"no total for several cards: {network['NetworkPerformance']}")
        return {"network_gbit_per_s": total, "network_peak_gbit_per_s": total, "nics": len(cards)}
    baseline, peak = float(cards[0]["BaselineBandwidthInGbps"]), float(cards[0]["PeakBandwidthInGbps"])
    row: Row = {"network_gbit_per_s": baseline, "network_peak_gbit_per_s": peak, "nics": 1}
    if total is not None and baseline < total == peak:
        row["placement_gbit_per_s"] = total
    return row


def _volume_columns(ebs: Mapping[str, Any]) -> Row:
    """Rates to and from volumes: `dedicated`, `optional` (to be asked for) or `shared` with the network."""
    if ebs["EbsOptimizedSupport"] == "unsupported":
        return {"volumes": "shared"}
    info = ebs["EbsOptimizedInfo"]
    return {
        "volumes": "dedicated" if ebs["EbsOptimizedSupport"] == "default" else "optional",
        "volume_mb_per_s": float(info["BaselineThroughputInMBps"]),
        "volume_peak_mb_per_s": float(info["MaximumThroughputInMBps"]),
        "volume_iops": info["BaselineIops"],
        "volume_peak_iops": info["MaximumIops"],
    }


def _store_columns(store: Mapping[str, Any] | None) -> Row:
    """Disks of the instance itself; sizes are decimal GB."""
    if store is None:
        return {}
    (disks,) = store["Disks"]
    return {
        "store_disks": disks["Count"],
        "store_disk_gb": disks["SizeInGB"],
        "store_medium": disks["Type"],
        "store_nvme": store["NvmeSupport"] != "unsupported",
    }


def _accelerators(facts: Mapping[str, Any]) -> int:
    """GPUs (or parts of one), FPGAs, media and inference devices.

    A Neuron device is listed as an inference one, too, and some Trainium types list none.
    """
    counts = [
        sum(device["Count"] or 1 for device in facts.get(group, {}).get(devices, ()))
        for group, devices in (
            ("GpuInfo", "Gpus"),
            ("FpgaInfo", "Fpgas"),
            ("MediaAcceleratorInfo", "Accelerators"),
            ("InferenceAcceleratorInfo", "Accelerators"),
            ("NeuronInfo", "NeuronDevices"),
        )
    ]
    return max(*counts, int(facts["InstanceType"].startswith("trn")))


GIB_PER_MIB = 1024
"""The list has throughput of volumes by GiB/s and month, the catalogue by MiB/s and month."""
_VOLUME = re.compile(
    r"(?:.*-)?EBS:Volume(?P<what>Usage|P-IOPS|P-Throughput)\.(?P<volume>gp2|gp3|io2|st1|sc1)(?P<tier>\.tier[23])?"
)
"""Usage types of volumes: a mark of the region, what is bought, the type, the tier of io2's operations."""
_UNITS: Mapping[tuple[str, str], tuple[str, float]] = {
    ("Usage", "GB-Mo"): ("capacity", 1.0),
    ("P-IOPS", "IOPS-Mo"): ("iops", 1.0),
    ("P-Throughput", "GiBps-mo"): ("throughput", 1 / GIB_PER_MIB),
    ("P-Throughput", "MiBps-Mo"): ("throughput", 1.0),
}
"""Components of the catalogue by what is bought and its unit; how many of that unit one of ours is."""
_TIERS = {"": "", ".tier2": " over 32000", ".tier3": " over 64000"}

_Usd = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Dimension(BaseModel):
    unit: str
    price: Mapping[str, _Usd] = Field(alias="pricePerUnit")


class _Term(BaseModel):
    dimensions: Mapping[str, _Dimension] = Field(alias="priceDimensions")


class _Terms(BaseModel):
    on_demand: Mapping[str, _Term] = Field(default_factory=dict, alias="OnDemand")


class _Product(BaseModel):
    attributes: Mapping[str, Any]


class PriceProduct(BaseModel):
    """One product, as far as its price on demand goes."""

    product: _Product
    terms: _Terms = Field(default_factory=_Terms)
    published: str = Field(default="", alias="publicationDate")

    def attribute(self, name: str) -> str:
        """An attribute as text; empty where it has none."""
        found = self.product.attributes.get(name, "")
        return found if isinstance(found, str) else ""

    def prices(self) -> Iterator[tuple[str, float]]:
        """Units and prices in USD that are more than nothing: what is free is listed, too."""
        for term in self.terms.on_demand.values():
            for dimension in term.dimensions.values():
                usd = dimension.price.get("USD", 0.0)
                if usd > 0:
                    yield dimension.unit, usd


_LUSTRE_TIERS: Mapping[tuple[str, str], tuple[str, str]] = {
    **{("SSD", tier): ("persistent-1", tier) for tier in ("50", "100")},
    **{("SSD", tier): ("persistent-2", tier) for tier in ("125", "250", "500", "1000")},
    **{("HDD", tier): (f"fsx-lustre-hdd-{tier}", "storage") for tier in ("12", "40")},
}
"""Items and components of the catalogue by medium and MB/s per TiB. 200 is sold of two deployment types."""


@dataclass(frozen=True, slots=True)
class StorageListPrice:
    """What a component of a volume type or a file system costs by the month."""

    item: str
    component: str
    usd: float
    date: str


def read_product(text: object) -> PriceProduct:
    """A product out of the text that the API has it in. Raises ValueError for anything else."""
    try:
        return PriceProduct.model_validate_json(text if isinstance(text, (str, bytes)) else b"")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg']}" if place else first["msg"]) from error


def hourly_prices(product: PriceProduct) -> Iterator[tuple[str, float]]:
    """Instance types and USD per hour."""
    name = product.attribute("instanceType")
    for unit, usd in product.prices():
        if name and unit == "Hrs":
            yield name, usd


def volume_prices(product: PriceProduct) -> Iterator[StorageListPrice]:
    """Prices of volumes; nothing for another product. Raises ValueError for a unit that is not known."""
    match = _VOLUME.fullmatch(product.attribute("usagetype"))
    if match is None:
        return
    for unit, usd in product.prices():
        known = _UNITS.get((match["what"], unit))
        if known is None:
            raise ValueError(f"{product.attribute('usagetype')} is sold by {unit!r}, which is not known here")
        component, factor = known
        yield StorageListPrice(
            match["volume"], component + _TIERS[match["tier"] or ""], usd * factor, product.published[:10]
        )


def lustre_prices(product: PriceProduct) -> Iterator[StorageListPrice]:
    """Prices of storage of FSx for Lustre; nothing for its backups and requests.

    Raises ValueError for a tier that the catalogue does not have, or that two deployment types have.
    """
    medium, said = product.attribute("storageType"), product.attribute("throughputCapacity")
    if product.attribute("fileSystemType") != "Lustre" or medium not in ("SSD", "HDD"):
        return
    tier = re.match(r"[0-9]{1,5}(?![0-9])", said, re.ASCII)
    for unit, usd in product.prices():
        if unit != "GB-Mo":
            continue
        known = _LUSTRE_TIERS.get((medium, tier[0] if tier else ""))
        if known is None:
            usage = product.attribute("usagetype") or "a product without usage type"
            raise ValueError(
                f"{usage}: {medium} of throughput {said[:40]!r} is no tier that is known for sure"
            )
        yield StorageListPrice(*known, usd, product.published[:10])


CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 30
ATTEMPTS = 5
"""Tries of one request, with growing pauses, before the command gives up."""

Clients = Callable[[str, str], Any]
"""Makes a client of a service (first) in a region (second)."""

_ADVICE = (
    "set AWS credentials as for the AWS command line (AWS_PROFILE, or aws configure) with the rights "
    "ec2:DescribeInstanceTypes and pricing:GetProducts; the packaged catalogue works without any"
)


def boto3_clients(regions: Sequence[str]) -> Clients:
    """Clients with bounded time and tries; checks the regions first, without the network."""
    try:
        import boto3
        from botocore.config import Config
    except ImportError:
        raise environment_error(
            "boto3 is not installed, and the cloud is asked through it",
            remedy="pip install 'gridwright[aws]'; the packaged catalogue works without it",
        ) from None
    hold_settings_of_home()
    session = boto3.session.Session()
    names = [
        name
        for partition in ("aws", "aws-us-gov", "aws-cn")
        for name in session.get_available_regions("ec2", partition_name=partition)
    ]
    for region in regions:
        if region not in names:
            close = nearest(region, names)
            hint = f"the nearest is {close}" if close else f"regions are {', '.join(names)}"
            raise input_error(f"AWS has no region {region[:64]!r}", where="--region", remedy=hint)
    config = Config(
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=READ_TIMEOUT_S,
        retries={"total_max_attempts": ATTEMPTS, "mode": "standard"},
    )
    return lambda service, region: session.client(service, region_name=region, config=config)


@contextmanager
def cloud_errors() -> Iterator[None]:
    """Turn what goes wrong between here and the cloud into one sentence and what to do."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(("botocore", "boto3", "s3transfer", "urllib3")):
            raise
        kind = type(error).__name__
        code = getattr(error, "response", {}).get("Error", {}).get("Code", "")
        if "Credential" in kind or "Token" in kind or kind in ("ProfileNotFound", "LoginRefreshRequired"):
            raise environment_error(f"AWS was not asked: {error}", remedy=_ADVICE) from error
        if code:
            raise environment_error(f"AWS refused: {error}", remedy=_ADVICE) from error
        raise environment_error(
            f"AWS did not answer: {error}",
            remedy="look at the network and the proxy settings, and try again; nothing was written",
        ) from error


PRICING_REGION = "us-east-1"
"""The Pricing API answers for all regions from a few of them."""
PROVIDERS = ("aws", "oci")
NOT_FETCHED = (
    "scratch-2 and tier 200 of FSx for Lustre, and other managed offers: their prices are the packaged ones, "
    "or yours in catalog.yaml",
)
"""What has prices in the catalogue, and no products in a list that Gridwright knows how to read."""
_LINUX = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
}
_VOLUME_FAMILIES = ("Storage", "System Operation", "Provisioned Throughput")
_EXAMPLES = 3


ORACLE_LIST = "https://apexapps.oracle.com/pls/apex/cetools/api/v1/products/?currencyCode=USD"
"""Oracle's list as JSON: what its page of prices is made from."""
ORACLE_TIMEOUT_S = 30.0
ORACLE_ATTEMPTS = 4
LARGEST_ORACLE_LIST = 64 << 20
PART_COLUMNS = ("item", "component", "part", "units", "source", "date")
_PAY_AS_YOU_GO = "PAY_AS_YOU_GO"

FetchOracle = Callable[[], bytes]


class _OraclePrice(BaseModel):
    model: str = ""
    value: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    beyond: float | None = Field(default=None, alias="rangeMin")


class _OracleLocalization(BaseModel):
    currency: str = Field(default="USD", alias="currencyCode")
    prices: Sequence[_OraclePrice] = ()


class _OracleItem(BaseModel):
    part: str = Field(alias="partNumber")
    localizations: Sequence[_OracleLocalization] = Field(default=(), alias="currencyCodeLocalizations")

    def usd(self) -> float | None:
        """The price on demand; of several by amount, the one beyond what is free or cheaper at first."""
        found = [
            (price.beyond or 0.0, price.value)
            for localization in self.localizations
            if localization.currency == "USD"
            for price in localization.prices
            if price.model == _PAY_AS_YOU_GO and price.value is not None
        ]
        return max(found)[1] if found else None


class _OracleList(BaseModel):
    items: Sequence[object]


def fetch_oracle_list() -> bytes:
    """The list as Oracle sends it. Raises GridwrightError (ENVIRONMENT) where it cannot be had."""
    try:
        return _fetched()
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise environment_error(
            f"Oracle's price list cannot be had: {error}",
            where=ORACLE_LIST,
            remedy="look at the network and the proxy settings (HTTPS_PROXY), and try again",
        ) from error


@retry(
    retry=retry_if_exception_type(OSError),
    stop=stop_after_attempt(ORACLE_ATTEMPTS),
    wait=wait_exponential(max=8),
    reraise=True,
)
def _fetched() -> bytes:
    request = urllib.request.Request(ORACLE_LIST, headers={"Accept": "application/json"})
    with urllib.request.urlopen(request, timeout=ORACLE_TIMEOUT_S) as answer:  # noqa: S310 - an address of our own
        content: bytes = answer.read(LARGEST_ORACLE_LIST + 1)
    if len(content) > LARGEST_ORACLE_LIST:
        raise ValueError(f"it has over {LARGEST_ORACLE_LIST >> 20} MiB, and such a list has one or two")
    return content


def oracle_prices(content: bytes) -> tuple[Mapping[tuple[str, str], float], Mapping[str, str]]:
    """USD by item and component of the catalogue, and why parts of the list that it needs were not read.

    Raises GridwrightError (ENVIRONMENT) for what is no list at all.
    """
    try:
        listed = _OracleList.model_validate_json(content)
    except ValidationError as error:
        raise environment_error(
            f"what Oracle sent is no price list: {content[:60]!r}",
            where=ORACLE_LIST,
            remedy="open the address in a browser: a proxy may have answered in its place",
        ) from error
    required = {part for _, _, part, *_ in rows("oci-parts.csv", PART_COLUMNS)}
    prices: dict[str, float] = {}
    unread: dict[str, str] = {}
    for item in _oracle_items(listed, required, unread):
        usd = item.usd()
        if usd is None:
            unread[item.part] = "it has no price on demand in USD"
        else:
            prices[item.part] = usd
    found = {}
    for name, component, part, units, *_ in rows("oci-parts.csv", PART_COLUMNS):
        if part in prices:
            found[name, component] = prices[part] / float(units)
        else:
            unread.setdefault(part, "the list does not have it")
    return found, unread


def _oracle_items(listed: _OracleList, required: set[str], unread: dict[str, str]) -> Iterator[_OracleItem]:
    for item in listed.items:
        part = item.get("partNumber") if isinstance(item, Mapping) else None
        if not isinstance(part, str) or part not in required:
            continue
        try:
            yield _OracleItem.model_validate(item)
        except ValidationError as error:
            unread[part] = error.errors(include_url=False, include_input=False)[0]["msg"]


@dataclass
class Fetched:
    """What was fetched, and what could not be read or had."""

    types: int = 0
    prices: int = 0
    storage: int = 0
    """Prices of volumes of AWS, and of FSx for Lustre."""
    oracle: int = 0
    """Prices of Oracle's cores, memory, disks and storage."""
    unread: dict[str, list[str]] = field(default_factory=dict)
    """By source, what of it was not understood, each with the reason; the packaged facts of these stay."""
    missing: list[str] = field(default_factory=list)
    """What was not fetched at all, and why."""

    def note(self, source: str, what: str) -> None:
        """Remember that something of a source was not understood."""
        self.unread.setdefault(source, []).append(what)

    def document(self) -> dict[str, Any]:
        """In plain values."""
        return {
            "types": self.types,
            "prices": self.prices,
            "storage_prices": self.storage,
            "oci_prices": self.oracle,
            "not_read": {source: len(each) for source, each in self.unread.items()},
            "not_fetched": self.missing,
        }

    def lines(self) -> Iterator[str]:
        """What was not understood or had, for people."""
        for source, each in self.unread.items():
            shown = "; ".join(each[:_EXAMPLES]) + ("; ..." if len(each) > _EXAMPLES else "")
            yield f"not understood, packaged facts stay: {len(each)} of {source}: {shown}"
        yield from (f"not fetched: {each}" for each in self.missing)


def refresh(
    out: Path,
    regions: Sequence[str],
    clients: Clients | None = None,
    *,
    providers: Collection[str] = PROVIDERS,
    oracle: Callable[[], bytes] = fetch_oracle_list,
) -> Fetched:
    """Write what EC2 lists and asks for in `regions` to `out`, and prices of storage and OCI beside it.

    The files are what load_catalog reads as `catalog.csv` and `catalog-prices.csv` beside a grid spec; each
    is written whole or not at all, and only after it was read back. What is not understood is counted, and
    its packaged facts stay. `clients` and `oracle` stand in for the clouds in tests. Raises
    GridwrightError: for a region that does not exist or a directory that cannot be written to (input), and
    when boto3, credentials, rights or the network are missing (environment).
    """
    refuse_unwritable(out)
    done = Fetched(missing=list(NOT_FETCHED))
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    rows: dict[str, dict[str, object]] = {}
    listed: list[PriceRow] = []
    if "aws" in providers:
        with cloud_errors():
            clients = clients or boto3_clients(regions)
            rows = _instances(clients, regions, today, done)
            pricing = clients("pricing", PRICING_REGION)
            listed += _storage(pricing, regions, today, done)
    if "oci" in providers:
        try:
            listed += _oracle(oracle(), today, done)
        except GridwrightError as error:
            if "aws" not in providers:
                raise
            done.missing.append(f"{error.problems[0].what}; packaged prices of OCI stay")
    if rows:
        write_refreshed(out, (rows[name] for name in sorted(rows)), regions)
    beside = out.with_name(PRICES_FILE)
    write_prices(beside, [*_retained_rows(beside, {row.provider for row in listed}), *listed])
    return done


def _instances(
    clients: Clients, regions: Sequence[str], today: str, done: Fetched
) -> dict[str, dict[str, object]]:
    """Rows by type, with prices by region. Raises GridwrightError where EC2 lists nothing that is known."""
    rows: dict[str, dict[str, object]] = {}
    for region in regions:
        source = f"DescribeInstanceTypes in {region}"
        for page in clients("ec2", region).get_paginator("describe_instance_types").paginate():
            for facts in _list(page, "InstanceTypes"):
                name = facts.get("InstanceType") if isinstance(facts, Mapping) else None
                if not isinstance(name, str) or name in rows:
                    continue
                try:
                    row = ec2_row(facts, source, today)
                    if row is not None:
                        refuse_unreadable(row)
                except (KeyError, ValueError, IndexError, TypeError, AttributeError) as error:
                    done.note("EC2's types", f"{name} ({type(error).__name__} {error})")
                    continue
                if row is not None:
                    rows[name] = {key: plain(value) for key, value in row.items()}
    if not rows:
        first = next(iter(done.unread.get("EC2's types", ["it lists none"])))
        raise environment_error(
            f"EC2 describes no instance type in a way that is known here: {first}",
            remedy="please report it; the packaged catalogue goes on working",
        )
    pricing = clients("pricing", PRICING_REGION)
    for region in regions:
        for product in _products(pricing, region, _LINUX, "prices of instances", done):
            for name, usd in hourly_prices(product):
                if name in rows:
                    done.prices += region not in rows[name]
                    rows[name][region] = plain(usd)
    done.types = len(rows)
    return rows


def _storage(pricing: Any, regions: Sequence[str], today: str, done: Fetched) -> Iterator[PriceRow]:  # noqa: ANN401
    """Prices of volumes and of FSx for Lustre; says where a region has none of the latter."""
    for region in regions:
        for family in _VOLUME_FAMILIES:
            asked = {"productFamily": family}
            products = _products(pricing, region, asked, "prices of volumes", done)
            yield from _listed(products, volume_prices, region, today, "prices of volumes", done)
        asked = {"fileSystemType": "Lustre"}
        products = _products(pricing, region, asked, "prices of FSx", done, service="AmazonFSx")
        rows = [*_unambiguous(_listed(products, lustre_prices, region, today, "prices of FSx", done), done)]
        if not rows:
            done.missing.append(f"FSx for Lustre in {region}: the list has no price of it that is known here")
        yield from rows


def _unambiguous(rows: Iterable[PriceRow], done: Fetched) -> Iterator[PriceRow]:
    """Rows of components with one price; several are noted, since nobody knows which one is meant."""
    by_component: dict[tuple[str, str], list[PriceRow]] = {}
    for row in rows:
        by_component.setdefault((row.item, row.component), []).append(row)
    for (item, component), of in by_component.items():
        if len({row.usd for row in of}) == 1:
            yield of[0]
        else:
            done.storage -= len(of)
            said = " and ".join(f"{row.usd:g}" for row in of)
            done.note("prices of FSx", f"{item} {component} in {of[0].region} has several prices: {said}")


def _listed(
    products: Iterable[PriceProduct],
    read: Callable[[PriceProduct], Iterator[StorageListPrice]],
    region: str,
    today: str,
    source: str,
    done: Fetched,
) -> Iterator[PriceRow]:
    """Rows of what `read` finds in products; what it refuses is noted under `source`."""
    for product in products:
        try:
            found = list(read(product))
        except ValueError as error:
            done.note(source, str(error))
            continue
        for each in found:
            done.storage += 1
            date = each.date or today
            yield PriceRow("aws", each.item, each.component, region, each.usd, "Pricing API", date)


def _products(
    pricing: Any,  # noqa: ANN401 - boto3 has no types
    region: str,
    filters: Mapping[str, str],
    source: str,
    done: Fetched,
    service: str = "AmazonEC2",
) -> Iterator[PriceProduct]:
    """Products of a service in one region that have these attributes."""
    asked = {"regionCode": region, **filters}
    pages = pricing.get_paginator("get_products").paginate(
        ServiceCode=service,
        Filters=[{"Type": "TERM_MATCH", "Field": key, "Value": value} for key, value in asked.items()],
    )
    for page in pages:
        for text in _list(page, "PriceList"):
            try:
                yield read_product(text)
            except ValueError as error:
                done.note(source, str(error))


def _list(page: object, key: str) -> Iterable[Any]:
    """What a page has; nothing where it has something else."""
    found = page.get(key) if isinstance(page, Mapping) else None
    return found if isinstance(found, list) else ()


def _oracle(content: bytes, today: str, done: Fetched) -> Iterator[PriceRow]:
    prices, unread = oracle_prices(content)
    for part, why in unread.items():
        done.note("Oracle's parts", f"{part}: {why}")
    for (item, component), usd in prices.items():
        done.oracle += 1
        yield PriceRow("oci", item, component, "", usd, "Oracle's price list", today)


def _retained_rows(path: Path, fetched: Collection[str]) -> list[PriceRow]:
    """Rows of the file for clouds that were not fetched now."""
    return (
        [price_row for price_row in read_price_rows(path) if price_row.provider not in fetched]
        if path.is_file()
        else []
    )
