"""Clouds in which Gridwright builds nothing: their grids are predicted from what the spec says of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from gridwright.errors import input_error
from gridwright.filesystems.resources import Cost
from gridwright.providers.provider import Provider
from gridwright.spec.fields import Budget, Change, SpecModel, Update
from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.together import Refused

if TYPE_CHECKING:
    from typing import NoReturn

    from gridwright.catalog import Catalog
    from gridwright.spec.model import GridSpec


class PredictedNodes(SpecModel):
    """What predictions have to be told of the nodes of a cloud whose machines the catalogue does not list."""

    machine: Annotated[str | None, Update(Change.ROLLING, "nodes are replaced one at a time")] = Field(
        default=None, max_length=64, description="The type of the nodes; predictions only name it."
    )
    node_price: Annotated[Budget | None, Update(Change.LIVE, "only predictions read it")] = Field(
        default=None, description="What one node costs, such as 2.50 USD/h."
    )


class PredictedCloud(Provider):
    """See Provider; a subclass has the name and a section derived from PredictedNodes."""

    reaches_nodes = False

    def problems(self, data: Mapping[str, Any]) -> Iterator[Refused]:
        """Nodes whose cores nobody says: no catalogue has them, and those of this machine are others."""
        groups = data.get("nodes")
        if groups is None:
            yield (), "nodes"
        for name, group in groups.items() if isinstance(groups, Mapping) else ():
            if isinstance(group, Mapping) and group.get("cores") is None and "instance" not in group:
                yield (
                    ("nodes", name),
                    FieldError(
                        f"the catalogue has no machines of {self.name}, and these have no cores:",
                        "add cores: 16, the physical cores of each",
                    ),
                )

    def costs_beside(self, spec: GridSpec, catalog: Catalog) -> tuple[Cost, ...]:
        """The nodes themselves, at the price that the spec has of them."""
        return self.costs_of(spec, catalog, spec.node_count(), has_lustre=False)

    def costs_of(
        self, spec: GridSpec, catalog: Catalog, machines: int, *, has_lustre: bool
    ) -> tuple[Cost, ...]:
        """The same for so many nodes; None where the spec has no price."""
        nodes = spec.section(PredictedNodes) or PredictedNodes()
        words = " ".join(
            [f"{machines} node{'s'[: machines != 1]}", *([nodes.machine] if nodes.machine else [])]
        )
        price = nodes.node_price
        return (Cost(words, None if price is None else price * machines),)

    def refuse(self, spec: GridSpec, verb: str) -> NoReturn:
        """Raise GridwrightError (INPUT): nothing is made there."""
        raise input_error(
            f"this release does not make grids of provider {self.name}",
            where=str(spec.file) if spec.file else None,
            remedy="gridwright predict works for it; write provider: lab for a lab on this machine",
        )
