"""`gridwright catalog list | show | qualify | refresh`: what can be bought, and who says so."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridwright.cli.arguments import Json, read_path
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.verbs import plain_app

catalog = plain_app(
    "Instance types, volumes, managed file systems and prices, each with source and date.",
    no_args_is_help=True,
)

Beside = Annotated[
    Path,
    typer.Option(
        "--beside",
        metavar="DIR",
        parser=read_path,
        help="Directory of the grid spec: catalog.yaml and catalog.csv there go before packaged facts.",
    ),
]
HERE = Path()


@catalog.command("list")
def list_(
    family: Annotated[
        str | None, typer.Option(metavar="FAMILY", help="Only this family, such as m5n.")
    ] = None,
    provider: Annotated[
        str | None,
        typer.Option(
            metavar="PROVIDER", help="Only this provider: aws, oci; azure and google have managed offers."
        ),
    ] = None,
    region: Annotated[
        str | None, typer.Option(metavar="REGION", help="Only what has a price in this region.")
    ] = None,
    beside: Beside = HERE,
    json: Json = False,
) -> None:
    """List instance types with cores, memory, network, volumes, disks and price; volumes and managed offers.

    Examples: gridwright catalog list --family m5n --region us-west-2; gridwright catalog list --provider oci
    """
    from gridwright.cli.plan import catalog_show

    catalog_show.show_list(family, provider, region, beside, json=json)


@catalog.command()
def show(
    name: Annotated[
        str, typer.Argument(metavar="TYPE", help="m5n.8xlarge, VM.DenseIO2.24, gp3, persistent-2 ...")
    ],
    beside: Beside = HERE,
    json: Json = False,
) -> None:
    """Show every fact of an instance type, volume type or managed file system, with source and date.

    Example: gridwright catalog show m5n.8xlarge
    """
    from gridwright.cli.plan import catalog_show

    catalog_show.show_one(name, beside, json=json)


@catalog.command()
def qualify(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", parser=read_path, help="A grid spec whose requirements are the thresholds."
        ),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(metavar="RATE", help="Network each physical core needs.  [default: 100 MB/s/core]"),
    ] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Memory each physical core needs.  [default: 8 GB]")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Print families of previous generations, too; --json has all.")
    ] = False,
    beside: Beside = HERE,
    json: Json = False,
) -> None:
    """Mark families of instance types against network and memory per physical core.

    A family meets a requirement when every one of its sizes does, by listed facts alone: steady
    network baseline and memory, divided by physical cores. The defaults are those at which all marks
    equal the published ones of paper 4632-2020 (its 14 families): 100 MB/s, the low end of its overall
    recommendation, since at 75 MB/s families would pass that it marks as failing.

    Example: gridwright catalog qualify --network 125MB/s/core --memory 16GB
    """
    from gridwright.cli.plan import catalog_show

    catalog_show.show_marks(file, network, memory, beside, every=every, json=json)


@catalog.command()
def refresh(
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE", parser=read_path, help="The file to write; catalog.csv beside a spec is read."
        ),
    ],
    region: Annotated[
        list[str] | None,
        typer.Option(metavar="REGION", help="Ask for this region; may be repeated.  [default: us-east-1]"),
    ] = None,
    provider: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PROVIDER", help="Only from this cloud: aws, oci; may be repeated.  [default: both]"
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Fetch specifications and prices from the clouds: EC2 with your AWS credentials, Oracle's public list.

    Writes FILE, with instance types of EC2 and their prices, and catalog-prices.csv beside it, with prices of
    volumes and of OCI. What could not be fetched or understood is named; the packaged facts of it stay.

    Examples: gridwright catalog refresh --out catalog.csv --region eu-west-1;
    gridwright catalog refresh --out catalog.csv --provider oci
    """
    from gridwright.catalog.refresh import PROVIDERS
    from gridwright.catalog.refresh import refresh as fetch
    from gridwright.catalog.refreshed import FILE, PRICES_FILE

    for each in provider or ():
        if each not in PROVIDERS:
            raise typer.BadParameter(
                f"{each!r} has no list to fetch: write {' or '.join(PROVIDERS)}", param_hint="--provider"
            )
    regions = list(dict.fromkeys(region or ["us-east-1"]))
    found = fetch(out, regions, providers=provider or PROVIDERS)
    document = {"file": str(out), "prices_file": str(out.with_name(PRICES_FILE)), "regions": regions}
    lines = [
        f"{out}: {found.types} instance types, {found.prices} prices",
        f"{out.with_name(PRICES_FILE)}: {found.storage} prices of volumes, {found.oracle} of OCI",
        *found.lines(),
    ]
    if out.name != FILE:
        lines.append(f"Gridwright reads it when it is called {FILE} and lies beside the grid spec")
    Output("catalog refresh", json=json).show(
        LazyResult(document=lambda: {**document, **found.document()}, text=lambda: "\n".join(lines))
    )
