"""What becomes of a resource that holds data when it leaves the stack."""

from __future__ import annotations


def kept(holds_data: bool) -> dict[str, object]:
    """Attributes of a resource: kept by AWS when the stack lets go of it, or deleted with it.

    A changed DeletionPolicy alone is no change to CloudFormation, which then refuses the update as empty; the
    metadata make it one.
    """
    policy = "Retain" if holds_data else "Delete"
    return {
        "DeletionPolicy": policy,
        "UpdateReplacePolicy": policy,
        "Metadata": {"Gridwright": {"HoldsData": holds_data}},
    }
