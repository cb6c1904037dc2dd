"""`gridwright predict --repository`: how long an export, a warm-up and a restore take, and what they cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridwright.cli.output import LazyResult, Output
from gridwright.errors import ExitStatus, GridwrightError, Problem, input_error, nearest

if TYPE_CHECKING:
    from gridwright.model.grid import GridModel
    from gridwright.repository.forecast import MonthForecast, RepositoryForecast


def predict_repository(model: GridModel, name: str, objects: int | None, output: Output) -> ExitStatus:
    """Print the forecast of a repository of the grid. Raises GridwrightError."""
    from gridwright.model.node_alone import limits_of_one_node
    from gridwright.repository.forecast import TransferLimit, forecast, month_forecast

    known = list(model.spec.repositories)
    if name not in known:
        near = nearest(name, known)
        hint = f"did you mean {near}? " if near else ""
        remedy = f"{hint}name {' or '.join(known)}" if known else "add repositories: to the grid spec"
        raise input_error(f"grid {model.name} has no repository {name}", where="--repository", remedy=remedy)
    library = model.spec.repositories[name].library
    if model.spec.is_linked(name):
        raise input_error(
            f"file system {model.libraries[library].filesystem} carries repository {name} itself, and how "
            "fast it does is not on file",
            where="--repository",
            remedy="name a repository that nodes carry",
        )
    limits = {
        way: [TransferLimit(each.what, each.bytes_per_s) for each in found]
        for way, found in limits_of_one_node(model, library).items()
    }
    size, repository = _size(model, library), model.spec.repositories[name]
    month = month_forecast(
        size,
        objects,
        _storage_usd(model),
        repository.export.changed.period_s,
        repository.imports.names.period_s,
    )
    found = forecast(name, size, objects, limits["read"], limits["write"], month)
    output.show(LazyResult(document=found.document, text=lambda: _text(found)))
    return ExitStatus.DONE


def _storage_usd(model: GridModel) -> float | None:
    """USD per GiB and month of S3 Standard in the grid's region, the site's own price before the list's."""
    from gridwright.catalog import load_catalog

    file = model.spec.file
    return load_catalog(file.parent if file else None).services.usd(
        "s3-standard", model.spec.region or "us-east-1"
    )


def _size(model: GridModel, library: str) -> int:
    """Bytes of a library: what the spec says it needs."""
    capacity = model.libraries[library].capacity
    if capacity is None:
        raise GridwrightError(
            Problem(
                f"nothing says how much library {library} holds",
                where=str(model.spec.file),
                field=f"libraries.{library}.capacity",
                remedy=f"add capacity: to library {library}, such as 12 TiB",
            )
        )
    return int(capacity)


def _text(found: RepositoryForecast) -> str:
    from gridwright.report.figures import duration
    from gridwright.units import format_bytes

    objects = "objects unknown" if found.objects is None else f"{found.objects} objects"
    lines = [f"{found.repository}: {format_bytes(found.bytes)}, {objects}"]
    for each in found.transfers:
        usd = "cost unknown: say --objects" if each.requests_usd is None else f"{each.requests_usd:,.2f} USD"
        lines.append(f"  {each.transfer}: at least {duration(each.seconds)}, {usd}")
        lines.append(f"    bound by {each.bound_by}")
    lines += [_month(found.month)] if found.month is not None else []
    return "\n".join([*lines, *(f"  {note}" for note in found.notes)])


def _month(month: MonthForecast) -> str:
    storage = (
        "no price of storage is known: write it under prices: services: in catalog.yaml"
        if month.storage_usd is None
        else f"{month.storage_usd:,.2f} USD for storage at most"
    )
    listings = "unknown: say --objects" if month.listings_usd is None else f"{month.listings_usd:,.2f} USD"
    imports = f", {month.imports} imports by time ({listings} for listings)" if month.imports else ""
    return f"  a month: {storage}, {month.exports} exports by time{imports}"
