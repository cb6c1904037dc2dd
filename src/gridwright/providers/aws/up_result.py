"""What `up` of a grid on AWS did, and how to go on; nothing here calls AWS."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from gridwright.providers.aws.changes import FieldChange, ResourceChange
from gridwright.providers.aws.cost_lines import CostLine, bill_lines, bill_values
from gridwright.providers.aws.pinned_images import GridImage
from gridwright.providers.aws.status_result import MachineStatus
from gridwright.spec.hosts import fold_hosts


@dataclass(frozen=True, slots=True)
class AwsUp:
    """What `up` did."""

    grid: str
    region: str
    made: bool
    """Whether it was not there before."""
    fields: tuple[FieldChange, ...]
    resources: tuple[ResourceChange, ...]
    machines: tuple[MachineStatus, ...]
    costs: tuple[CostLine, ...]
    kept: tuple[str, ...]
    """What was replaced and is kept, and billed."""
    user: str | None
    """Who logs in by ssh, where a key pair lets administrators in."""
    seconds: float
    images: tuple[GridImage, ...] = ()
    """Those that the spec knows by a name."""
    set_up_again: tuple[str, ...] = ()
    """Parts of the grid, nodes or servers, whose machines were set up anew in place."""
    file: str = ""
    """The grid spec as the user named it."""
    least_usd_per_hour: float | None = None
    """With the nodes alone that are always on; None where all are."""

    @property
    def changed(self) -> bool:
        """Whether anything was made or changed."""
        return self.made or bool(self.resources) or bool(self.set_up_again)

    def document(self) -> dict[str, Any]:
        """See Result."""
        return {
            "grid": self.grid,
            "region": self.region,
            "made": self.made,
            "changed": self.changed,
            "fields": [_field_values(each) for each in self.fields],
            "changes": [_resource_values(each) for each in self.resources],
            "set_up_again": list(self.set_up_again),
            "machines": [asdict(each) for each in self.machines],
            "costs": bill_values(self.costs),
            "images": [asdict(each) for each in self.images],
            "least_usd_per_hour": self.least_usd_per_hour,
            "kept": list(self.kept),
            "seconds": self.seconds,
        }

    def text(self) -> str:
        """What was done, and how to go on."""
        return "\n".join(_lines(self))


def _field_values(change: FieldChange) -> dict[str, Any]:
    """A changed field of the spec in a document."""
    return {
        "field": ".".join(change.path),
        "old": change.old,
        "new": change.new,
        "policy": change.update.change.value,
        "because": change.update.because,
    }


def _resource_values(change: ResourceChange) -> dict[str, Any]:
    """A changed resource in a document."""
    return {
        "stack": change.stack,
        "resource": change.logical_id,
        "type": change.type,
        "action": change.action,
        "properties": list(change.properties),
        "holds_data_of": change.filesystem,
    }


def _lines(result: AwsUp) -> Iterator[str]:
    if result.made:
        yield f"grid {result.grid} is up in {result.region}, after {result.seconds / 60:.1f} min"
    elif result.changed:
        yield f"grid {result.grid} is changed, after {result.seconds / 60:.1f} min"
    else:
        yield f"grid {result.grid} is up already, as the spec has it: nothing is changed"
    if result.set_up_again:
        yield f"set up again in place, replacing nothing: {' and '.join(result.set_up_again)}"
    missing = [each.name for each in result.machines if each.state == "missing"]
    if missing:
        yield f"not there yet: {fold_hosts(missing)}"
    yield from (f"image of {each.text}" for each in result.images)
    for each in result.kept:
        yield f"kept, and billed: {each}"
    yield from bill_lines(result.costs, least=result.least_usd_per_hour)
    yield "Next:"
    yield from _next(result)


def _next(result: AwsUp) -> Iterator[str]:
    login = next((each for each in result.machines if each.role == "login"), None)
    if login is not None and login.instance is not None:
        address = login.public_address or login.address
        if result.user is not None:
            yield f"  ssh {result.user}@{address}"
        yield f"  aws ssm start-session --region {result.region} --target {login.instance}"
    spec = f" {result.file}" if result.file else ""
    yield f"  gridwright status{spec}"
    yield f"  gridwright down{spec}"
