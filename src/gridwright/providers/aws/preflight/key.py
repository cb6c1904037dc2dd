"""Whether Auto Scaling may use the KMS key of a grid: else groups start no machine, and say little of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gridwright.errors import Finding
from gridwright.providers.aws.layout import AwsLayout
from gridwright.providers.aws.session import Cloud

SERVICE_ROLE = "role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
"""The role that Auto Scaling takes (Amazon EC2 Auto Scaling User Guide, required AWS KMS key policy)."""
OPERATIONS = (
    "Encrypt",
    "Decrypt",
    "ReEncryptFrom",
    "ReEncryptTo",
    "GenerateDataKey",
    "GenerateDataKeyWithoutPlaintext",
    "DescribeKey",
    "CreateGrant",
)
"""What that page has the grant allow."""


def key_findings(cloud: Cloud, layout: AwsLayout, account: str) -> Iterator[Finding]:
    """What is wrong with the key that the spec names. Raises CloudError."""
    key = layout.aws.kms_key
    if key is None:
        return
    state = cloud.call("kms", "describe_key", KeyId=key)["KeyMetadata"].get("KeyState", "Enabled")
    if state != "Enabled":
        yield Finding(
            "error",
            "key-not-enabled",
            f"KMS key {key} is {state}: nothing can be encrypted with it",
            f"enable it: aws kms enable-key --region {cloud.region} --key-id {key}",
        )
    if not any(each.replaced for each in layout.machines):
        return
    role = f"arn:{key.split(':')[1]}:iam::{account}:{SERVICE_ROLE}"
    granted = any(
        each.get("GranteePrincipal") == role
        for each in cloud.listed("kms", "list_grants", "Grants", KeyId=key)
    )
    policy = cloud.call("kms", "get_key_policy", KeyId=key, PolicyName="default").get("Policy", "")
    if granted or _lets(str(policy), role):
        return
    yield Finding(
        "error",
        "key-not-for-auto-scaling",
        f"Auto Scaling may not use KMS key {key}: no grant and no statement of its policy names {role}; "
        "nodes and servers with encrypted volumes would not start",
        f"aws kms create-grant --region {cloud.region} --key-id {key} --grantee-principal {role} "
        f"--operations {' '.join(OPERATIONS)}",
    )


def _lets(policy: str, role: str) -> bool:
    """Whether a statement allows the role anything, or everybody, as those of AWS's own keys do.

    That of the whole account (`:root`) leaves it to policies of the role, which is AWS's own.
    """
    try:
        statements = json.loads(policy or "{}").get("Statement", [])
    except ValueError:
        return role in policy
    listed = statements if isinstance(statements, list) else [statements]
    return any(
        each.get("Effect") == "Allow" and not {role, "*"}.isdisjoint(_principals(each)) for each in listed
    )


def _principals(statement: dict[str, Any]) -> list[str]:
    named = statement.get("Principal", [])
    named = named.get("AWS", []) if isinstance(named, dict) else named
    return [named] if isinstance(named, str) else list(named)
