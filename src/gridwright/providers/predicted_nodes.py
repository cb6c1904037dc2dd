"""The nodes of a cloud whose machines no catalogue lists, as a grid spec describes them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gridwright.spec.fields import Budget, Change, SpecModel, Update
from gridwright.yamltext.fields import TotalRate


class PredictedNodes(SpecModel):
    """What predictions have to be told of the nodes of a cloud whose machines the catalogue does not list."""

    machine: Annotated[str | None, Update(Change.ROLLING, "nodes are replaced one at a time")] = Field(
        default=None, max_length=64, description="The type of the nodes; predictions only name it."
    )
    node_price: Annotated[Budget | None, Update(Change.LIVE, "only predictions read it")] = Field(
        default=None, description="What one node costs, such as 2.50 USD/h. A plan has to know it."
    )
    node_network: Annotated[TotalRate | None, Update(Change.LIVE, "only predictions read it")] = Field(
        default=None,
        description="What the network of one node passes in each direction, for good, such as 2 GB/s. A plan "
        "has to know it.",
    )
