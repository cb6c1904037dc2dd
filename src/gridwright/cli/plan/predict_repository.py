"""`gridwright predict --repository`: how long an export, a warm-up and a restore take, and what they cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridwright.cli.output import LazyResult, Output
from gridwright.errors import ExitStatus, GridwrightError, Problem, input_error, nearest

if TYPE_CHECKING:
    from gridwright.model.grid import GridModel
    from gridwright.repository.forecast import RepositoryForecast


def predict_repository(model: GridModel, name: str, objects: int | None, output: Output) -> ExitStatus:
    """Print the forecast of a repository of the grid. Raises GridwrightError."""
    from gridwright.model.node_alone import limits_of_one_node
    from gridwright.repository.forecast import TransferLimit, forecast

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
    found = forecast(name, _size(model, library), objects, limits["read"], limits["write"])
    output.show(LazyResult(document=found.document, text=lambda: _text(found)))
    return ExitStatus.DONE


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
    return "\n".join([*lines, *(f"  {note}" for note in found.notes)])
