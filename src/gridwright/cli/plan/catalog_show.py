"""What `gridwright catalog show`, `list` and `qualify` print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import cast

from rich.console import Console

from gridwright.catalog import Catalog, InstanceType, load_catalog
from gridwright.catalog.contents import unknown
from gridwright.catalog.describe import (
    FactLine,
    describe_instance,
    describe_managed,
    describe_offer,
    describe_service,
    describe_volume,
    price_line,
)
from gridwright.catalog.instances import PROVIDERS, Provider
from gridwright.catalog.prices import HOME, Price, StoragePrices
from gridwright.catalog.qualify import (
    MEMORY_BYTES_PER_CORE,
    NETWORK_BYTES_PER_S_PER_CORE,
    RULE,
    FamilyMarks,
    qualify,
)
from gridwright.cli.arguments import Reader
from gridwright.cli.output import LazyResult, Output
from gridwright.errors import input_error
from gridwright.report.figures import ABSENT, megabytes, plain
from gridwright.report.table import Cell, columns_of, rows_table
from gridwright.report.terminal.frame import framed, printed

DEFAULT_REGION = {"aws": "us-east-1", "oci": "us-ashburn-1"}
"""Where prices are shown when no region is named."""


def show_list(
    family: str | None, provider: str | None, region: str | None, beside: Path, *, json: bool
) -> None:
    """List instance types that fit the filters, and the names of what else there is."""
    catalog = load_catalog(beside)
    found = _chosen(catalog, family, provider, region)
    prices = {each.name: catalog.prices.price(each, _place(each, region)) for each in found}
    if region:
        found = [each for each in found if prices[each.name] is not None]

    def document() -> dict[str, object]:
        return {
            "region": region,
            "instances": [_entry(each, prices[each.name], region) for each in found],
            **_storage_entries(catalog, provider, region),
            "services": sorted(catalog.services.units),
        }

    def text() -> str:
        of_storage = _storage_entries(catalog, provider, region)
        titles = {"volumes": "volumes", "managed": "managed file systems", "offers": "managed offers"}
        others = {title: [str(one["name"]) for one in of_storage[kind]] for kind, title in titles.items()}
        others["other prices"] = list(catalog.services.units)
        lines = [f"{what}: {', '.join(names)}\n" for what, names in others.items() if names and not family]
        return "".join([_list_text(found, prices, region), *lines])

    Output("catalog list", json=json).show(LazyResult(document=document, text=text))


def _chosen(
    catalog: Catalog, family: str | None, provider: str | None, region: str | None
) -> list[InstanceType]:
    selling = tuple(dict.fromkeys((*PROVIDERS, *(offer.provider for offer in catalog.offers.values()))))
    if provider is not None and provider not in selling:
        raise unknown("provider", provider, selling, show_all=True)
    if region is not None:
        known = [each for each in PROVIDERS if region in (*catalog.regions(each), *catalog.prices.own)]
        if not known:
            raise unknown("region with prices", region, catalog.regions("aws") + catalog.regions("oci"))
        if provider is not None and provider not in known:
            theirs = ", ".join(catalog.regions(cast("Provider", provider)))
            raise input_error(
                f"{region} is no region of {provider}",
                where="--region",
                remedy=f"leave --provider out, or choose one of {theirs}",
            )
    of_provider = [
        instance for instance in catalog.instances.values() if provider in (None, instance.provider)
    ]
    if family is None:
        return of_provider
    found = [each for each in of_provider if each.family == family]
    if not found:
        raise unknown("family", family, sorted({each.family for each in of_provider}))
    return sorted(found, key=lambda each: (each.cores, each.name))


def _place(instance: InstanceType, region: str | None) -> str:
    return region or DEFAULT_REGION[instance.provider]


def _entry(instance: InstanceType, price: Price | None, region: str | None) -> dict[str, object]:
    described = asdict(instance)
    described["usd_per_hour"] = price.usd if price else None
    described["price_region"] = _place(instance, region)
    described["price_source"] = asdict(price.source) if price else None
    described["price_is_estimate"] = price.estimate if price else None
    return described


@printed
def _list_text(
    console: Console, found: Sequence[InstanceType], prices: dict[str, Price | None], region: str | None
) -> None:
    where = region or "us-east-1 (AWS) and all of OCI"
    where += " (~ is an estimate)" if any(price and price.estimate for price in prices.values()) else ""
    figures = ("cores", "GB", "network MB/s", "MB/s/core", "volumes MB/s", "disks TB", "USD/h")
    rows = []
    for each in found:
        store, usd = each.instance_store, prices[each.name]
        mark = "~" if usd and usd.estimate else ""
        row = (
            each.name,
            str(each.cores),
            plain(each.memory_bytes / 1e9),
            megabytes(each.network.baseline_bytes_per_s),
            megabytes(each.network_bytes_per_s_per_core),
            megabytes(each.ebs.baseline_bytes_per_s) if each.ebs else ABSENT,
            plain(store.total_bytes / 1e12) if store else ABSENT,
            f"{mark}{usd.usd:.4g}" if usd else ABSENT,
        )
        rows.append(row)
    title = f"{len(found)} instance types; prices of {where}, on demand, Linux"
    console.print(framed(rows_table(title, columns_of(["type"], figures), rows)))


def show_one(name: str, beside: Path, *, json: bool) -> None:
    """Show every fact of one thing."""
    catalog = load_catalog(beside)
    kind, lines = _described(catalog, name)
    document = {"kind": kind, "name": name, "facts": [asdict(line) for line in lines]}
    Output("catalog show", json=json).show(
        LazyResult(document=lambda: document, text=lambda: _facts_text(name, kind, lines))
    )


@printed
def _facts_text(console: Console, name: str, kind: str, lines: Sequence[FactLine]) -> None:
    columns = columns_of(["fact"], ["value"], "source", "date")
    rows = ((line.fact, _value(line), line.source, line.date) for line in lines)
    console.print(framed(rows_table(f"{name}: {kind}", columns, rows)))


def _described(catalog: Catalog, name: str) -> tuple[str, list[FactLine]]:
    if name in catalog.volumes:
        return "volume type", describe_volume(catalog.volumes[name])
    if name in catalog.managed:
        return "managed file system", describe_managed(catalog.managed[name])
    if name in catalog.offers:
        offer = catalog.offers[name]
        return f"managed offer of {offer.provider}", describe_offer(offer, catalog.offer_prices[offer.name])
    if name in catalog.services.units:
        return "price", describe_service(catalog.services, name)
    if name not in catalog.instances:
        names = [*catalog.volumes, *catalog.managed, *catalog.offers, *catalog.services.units]
        names += catalog.instances
        raise unknown("instance type, volume type or managed file system", name, names)
    instance = catalog.instances[name]
    lines = describe_instance(instance)
    for region in sorted({*catalog.regions(instance.provider), *catalog.prices.own}):
        if price := catalog.prices.price(instance, region):
            lines.append(price_line(f"price in {region}", price, "USD/h"))
    return "instance type", lines


def _value(line: FactLine) -> str:
    """The value with its unit, as a spec would have it: sizes sold in GiB in GiB, others decimal."""
    value = line.value
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if line.unit == "bytes" and value % 2**30 == 0:
        return f"{value / 2**30:,.0f} GiB"
    if line.unit == "bytes":
        return f"{plain(value / 1e9)} GB"
    if line.unit.startswith("bytes/s"):
        return f"{megabytes(value)} MB/s{line.unit.removeprefix('bytes/s')}"
    return f"{value:g} {line.unit}".strip() if abs(value) < 1e6 else f"{value:,.0f} {line.unit}".strip()


def _storage_entries(
    catalog: Catalog, provider: str | None, region: str | None
) -> dict[str, list[dict[str, object]]]:
    """Return `volumes`, `managed` and `offers`, each entry with name, provider, source, date and prices.

    Prices are those in `region` (USD a month, per GiB or as the component says), by default in us-east-1, and
    of other clouds in the first region with prices; a component without a price there is not among them.
    """

    def entry(name: str, of: str, prices: StoragePrices, sources: Iterable[object]) -> dict[str, object]:
        regions = prices.regions()
        place = region or (HOME if HOME in regions else next(iter(regions), HOME))
        return {
            "name": name,
            "provider": of,
            "sources": sorted({str(source) for source in sources}),
            "price_region": place,
            "prices": price_entries(prices, place),
        }

    found = {
        "volumes": [
            entry(name, each.provider, each.prices, (fact.source for fact in each.facts.values()))
            for name, each in sorted(catalog.volumes.items())
        ],
        "managed": [
            entry(name, each.provider, each.prices, (tier.source for tier in each.by_tier.values()))
            for name, each in sorted(catalog.managed.items())
        ],
        "offers": [
            entry(
                name,
                each.provider,
                catalog.offer_prices[name],
                (fact.source for fact in each.facts.values()),
            )
            | {"protocol": each.protocol, "facts": {fact: asdict(of) for fact, of in each.facts.items()}}
            for name, each in sorted(catalog.offers.items())
        ],
    }
    return {
        kind: [each for each in entries if provider in (None, each["provider"])]
        for kind, entries in found.items()
    }


def price_entries(prices: StoragePrices, region: str) -> list[dict[str, object]]:
    """Return every component with a price in `region`, listed or estimated."""
    return [
        {
            "component": component,
            "usd": price.usd,
            "source": price.source.text,
            "date": price.source.date,
            "estimate": price.estimate,
        }
        for component in prices.components()
        if (price := prices.known(component, region))
    ]


_MARK = {True: Cell("yes", "met"), False: Cell("no", style="red")}


def show_marks(
    file: Path | None, network: str | None, memory: str | None, beside: Path, *, every: bool, json: bool
) -> None:
    """Read the thresholds, mark all families and print them."""
    thresholds = _thresholds(network, memory)
    if file is not None:
        beside = file.parent
        of_spec = _required(file)
        thresholds = [
            asked if asked is not None else of for asked, of in zip(thresholds, of_spec, strict=True)
        ]
    network_used, memory_used = thresholds
    network_used = NETWORK_BYTES_PER_S_PER_CORE if network_used is None else network_used
    memory_used = MEMORY_BYTES_PER_CORE if memory_used is None else memory_used
    marks = qualify(load_catalog(beside).instances.values(), network_used, memory_used)
    Output("catalog qualify", json=json).show(
        LazyResult(
            document=lambda: _document(marks, network_used, memory_used),
            text=lambda: _text(marks, network_used, memory_used, every=every),
        )
    )


def _thresholds(network: str | None, memory: str | None) -> list[float | None]:
    """Thresholds on the command line; a rate is taken per core, with `/core` or without."""
    reader = Reader()
    if network is not None and "/" in network and not network.rstrip().endswith("core"):
        network = f"{network}/core"
    found = [reader.core_rate("--network", network), reader.size("--memory", memory)]
    reader.finish(True)
    return found


def _required(file: Path) -> list[float | None]:
    """What a spec asks of each core: the rate of all libraries together, as plan reads it, and memory."""
    from gridwright.cli.spec_file import load
    from gridwright.plan.needs import read_needs

    needs = read_needs(load(file))
    return [needs.rate(needs.libraries), needs.requirements.memory_per_core]


def _document(marks: Sequence[FamilyMarks], network: float, memory: float) -> dict[str, object]:
    return {
        "threshold_network_bytes_per_s_per_core": network,
        "threshold_memory_bytes_per_core": memory,
        "rule": RULE,
        "families": [_family_entry(mark) for mark in marks],
    }


def _family_entry(marks: FamilyMarks) -> dict[str, object]:
    published = marks.published
    return {
        "family": marks.family,
        "provider": marks.provider,
        "network_meets": marks.network_meets,
        "memory_meets": marks.memory_meets,
        "sizes": marks.sizes,
        "network_bytes_per_s_per_core": {"lowest": marks.network_lowest, "highest": marks.network_highest},
        "memory_bytes_per_core": {"lowest": marks.memory_lowest, "highest": marks.memory_highest},
        "network_misses": list(marks.network_misses),
        "memory_misses": list(marks.memory_misses),
        "current": marks.current,
        "published": None
        if published is None
        else {
            "network_meets": published.network_meets,
            "memory_meets": published.memory_meets,
            "fact_id": published.fact,
        },
    }


@printed
def _text(
    console: Console, marks: Sequence[FamilyMarks], network: float, memory: float, *, every: bool
) -> None:
    shown = [mark for mark in marks if every or mark.current or mark.published]
    columns = columns_of(
        ["family", "network", "memory", "published"],
        ["sizes", "MB/s per core", "GB per core", "sizes that miss"],
    )
    rows = (
        (
            each.family,
            _MARK[each.network_meets],
            _MARK[each.memory_meets],
            _published(each),
            str(each.sizes),
            _range(each.network_lowest / 1e6, each.network_highest / 1e6),
            _range(each.memory_lowest / 1e9, each.memory_highest / 1e9),
            str(len({*each.network_misses, *each.memory_misses})),
        )
        for each in shown
    )
    title = f"Families against {network / 1e6:g} MB/s and {memory / 1e9:g} GB for each physical core"
    console.print(framed(rows_table(title, columns, rows)))
    console.print(RULE, markup=False)
    console.print("Published: network/memory as paper 4632-2020 marks the family.", markup=False)
    if len(shown) < len(marks):
        console.print(f"{len(marks) - len(shown)} families of previous generations: --all", markup=False)


def _published(marks: FamilyMarks) -> str:
    words = {True: "yes", False: "no"}
    found = marks.published
    return f"{words[found.network_meets]}/{words[found.memory_meets]}" if found else ABSENT


def _range(low: float, high: float) -> str:
    return plain(low) if plain(low) == plain(high) else f"{plain(low)} to {plain(high)}"
