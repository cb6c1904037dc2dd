"""Builds listed-prices.csv, network-elsewhere.csv and attachments.csv of the catalogue: what EC2 lists today.

    python tools/catalogue_today.py KARPENTER MOTO

KARPENTER  directory of the Go module github.com/aws/karpenter-provider-aws (Apache-2.0), unpacked:
           go mod download -json github.com/aws/karpenter-provider-aws@v1.15.1
           prints the file named Zip; its generated Go tables hold on-demand prices of us-east-1 and of
           GovCloud, and the network rates of EC2's pages of instance types
MOTO       instance_types.json.gz of moto, as for tools/catalogue.py, which is run first

The same inputs give the same files, byte for byte. Each row carries its source and date.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gridwright.catalog.instances import ATTACHMENT_COLUMNS, DISAGREEMENT_COLUMNS, TOLERANCE
from gridwright.catalog.prices import LISTED_COLUMNS

DATA = Path(__file__).parents[1] / "src" / "gridwright" / "catalog" / "data"

KARPENTER = "karpenter-provider-aws 1.15.1"
PRICES = f"EC2 price list via {KARPENTER}"
PAGES = (f"EC2 pages of instance types via {KARPENTER}", "2026-10")
MOTO = ("DescribeInstanceTypes via moto 5.2.5", "2026-10")

# The table of China is in yuan and of 2024: it is left out.
PRICE_FILES = ("zz_generated.pricing_aws.go", "zz_generated.pricing_aws_us_gov.go")
GENERATED = re.compile(r"^// generated at (\d{4}-\d\d)-", re.MULTILINE)
REGION = re.compile(r'^\s*"([a-z]{2}(?:-[a-z]+)+-\d)": \{', re.MULTILINE)
FIGURE = re.compile(r'"([a-z0-9-]+\.[a-z0-9-]+)":\s+(\d+(?:\.\d+)?)')


def main() -> None:
    """Read the sources named on the command line and write the files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("karpenter", "moto"):
        parser.add_argument(name, type=Path)
    args = parser.parse_args()
    types = {row["name"]: row for row in read("instances.csv") if row["provider"] == "aws"}
    tables = args.karpenter / "pkg" / "providers"
    prices = [row for name in PRICE_FILES for row in price_rows(tables / "pricing" / name, types)]
    write("listed-prices.csv", LISTED_COLUMNS, sorted(prices, key=lambda row: (row["region"], row["name"])))
    rates = figures((tables / "instancetype" / "zz_generated.bandwidth.go").read_text())
    write("network-elsewhere.csv", DISAGREEMENT_COLUMNS, network_rows(rates, types))
    listed = json.loads(gzip.decompress(args.moto.read_bytes()))
    write("attachments.csv", ATTACHMENT_COLUMNS, attachment_rows(listed, types))


def read(name: str) -> list[dict[str, str]]:
    """Read the rows of one file of the catalogue."""
    with (DATA / name).open(newline="") as file:
        return list(csv.DictReader(file))


def write(name: str, columns: Iterable[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Write one file of the catalogue."""
    with (DATA / name).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(columns), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def figures(text: str) -> dict[str, float]:
    """The entries of a Go map from instance types to numbers."""
    return {name: float(value) for name, value in FIGURE.findall(text)}


def price_rows(path: Path, types: Mapping[str, object]) -> Iterator[dict[str, str]]:
    """USD per hour of every known type in each region of one generated table."""
    text = path.read_text()
    date = GENERATED.search(text)
    if date is None:
        raise ValueError(f"{path} does not say when it was generated")
    # What stands before the first region, and then by turns a region and its entries.
    _, *parts = REGION.split(text)
    for region, entries in zip(parts[::2], parts[1::2], strict=True):
        for name, usd in figures(entries).items():
            if name in types and usd > 0:
                yield {
                    "name": name,
                    "region": region,
                    "usd": f"{usd:.12g}",
                    "source": PRICES,
                    "date": date[1],
                }


def network_rows(
    megabits: Mapping[str, float], types: Mapping[str, Mapping[str, str]]
) -> Iterator[dict[str, str]]:
    """Network rates for which the pages of instance types say another figure than EC2's API."""
    for name in sorted(set(megabits) & set(types)):
        here, there = float(types[name]["network_gbit_per_s"]), megabits[name] / 1000
        # The pages name the rate in a placement group for two types: it has a column of its own.
        if abs(there / here - 1) > TOLERANCE and types[name]["placement_gbit_per_s"] != f"{there:g}":
            yield {"name": name, "gbit_per_s": f"{there:g}", "source": PAGES[0], "date": PAGES[1]}


def attachment_rows(
    listed: Mapping[str, Mapping[str, Mapping[str, object]]], types: Mapping[str, object]
) -> Iterator[dict[str, object]]:
    """How many volumes each type can have attached, and whether network interfaces count among them."""
    for name in sorted(set(listed) & set(types)):
        ebs = listed[name]["EbsInfo"]
        yield {
            "name": name,
            "volumes": ebs["MaximumEbsAttachments"],
            "shared": int(ebs["AttachmentLimitType"] == "shared"),
            "source": MOTO[0],
            "date": MOTO[1],
        }


if __name__ == "__main__":
    main()
