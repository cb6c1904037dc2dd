"""Provider azure: nodes by what a spec says of them, file systems by the catalogue's offers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gridwright.providers.predicted_cloud import PredictedCloud, PredictedNodes
from gridwright.spec.fields import Change, Update
from gridwright.spec.provider import MetadataService, ProviderSection


class AzureSection(PredictedNodes):
    """What only provider azure has."""

    machine: Annotated[str | None, Update(Change.ROLLING, "nodes are replaced one at a time")] = Field(
        default=None,
        max_length=64,
        description="The type of the nodes, such as Standard_E32ds_v5; predictions only name it.",
    )


class AzureProvider(PredictedCloud):
    """See Provider."""

    name = "azure"
    metadata_service = MetadataService(
        # 168.63.129.16 is the host's service, which hands out secrets of extensions, and the name service.
        addresses=("169.254.169.254", "168.63.129.16"),
        open_tcp=(53,),
        open_udp=(53,),
    )
    """Azure, Instance Metadata Service; what is IP address 168.63.129.16."""
    section = ProviderSection(
        AzureSection, "What only provider azure has.", Update(Change.LIVE, "only predictions read it")
    )


AZURE = AzureProvider()
