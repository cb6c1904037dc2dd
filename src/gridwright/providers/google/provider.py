"""Provider google: nodes by what a spec says of them, file systems by the catalogue's offers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gridwright.providers.predicted_cloud import PredictedCloud, PredictedNodes
from gridwright.spec.fields import Change, Update
from gridwright.spec.provider import MetadataService, ProviderSection


class GoogleSection(PredictedNodes):
    """What only provider google has."""

    machine: Annotated[str | None, Update(Change.ROLLING, "nodes are replaced one at a time")] = Field(
        default=None,
        max_length=64,
        description="The type of the nodes, such as n2-highmem-32; predictions only name it.",
    )


class GoogleProvider(PredictedCloud):
    """See Provider."""

    name = "google"
    metadata_service = MetadataService(
        # The name service and the clock of a machine are at the same address.
        addresses=("169.254.169.254", "fd20:ce::254"),
        open_tcp=(53,),
        open_udp=(53, 123),
    )
    """Google Cloud, about VM metadata; Compute Engine internal DNS; configure NTP."""
    section = ProviderSection(
        GoogleSection, "What only provider google has.", Update(Change.LIVE, "only predictions read it")
    )


GOOGLE = GoogleProvider()
