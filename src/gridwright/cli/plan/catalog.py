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
    from gridwright.cli.plan import catalog_qualify

    catalog_qualify.show_marks(file, network, memory, beside, every=every, json=json)


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
    json: Json = False,
) -> None:
    """Fetch EC2 specifications and prices through the cloud's own API, with your AWS credentials.

    Example: gridwright catalog refresh --out catalog.csv --region eu-west-1
    """
    from gridwright.catalog.refresh import refresh as fetch
    from gridwright.catalog.refreshed import FILE

    regions = region or ["us-east-1"]
    types, prices = fetch(out, list(dict.fromkeys(regions)))
    document = {"file": str(out), "regions": regions, "types": types, "prices": prices}
    text = f"{out}: {types} instance types, {prices} prices"
    if out.name != FILE:
        text += f"\nGridwright reads it when it is called {FILE} and lies beside the grid spec"
    Output("catalog refresh", json=json).show(LazyResult(document=lambda: document, text=lambda: text))
