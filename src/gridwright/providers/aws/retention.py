"""What becomes of a resource that holds data when it leaves the stack."""

from __future__ import annotations


def deletion_policy(holds_data: bool) -> dict[str, object]:
    """The DeletionPolicy and its companions: AWS retains the resource without its stack, or deletes it.

    A changed DeletionPolicy alone is no change to CloudFormation, which then refuses the update as empty; the
    metadata make it one.
    """
    policy = "Retain" if holds_data else "Delete"
    return {
        "DeletionPolicy": policy,
        "UpdateReplacePolicy": policy,
        "Metadata": {"Gridwright": {"HoldsData": holds_data}},
    }
