"""Whether machines could read the secret that the spec names for its directory of users."""

from __future__ import annotations

from collections.abc import Iterator

from gridwright.errors import Finding
from gridwright.providers.aws.layout import AwsLayout
from gridwright.providers.aws.session import Cloud, CloudError
from gridwright.setup.users_spec import secret_arn
from gridwright.spec.model import GridSpec

OWN_KEY = "alias/aws/secretsmanager"
"""The key that AWS has for secrets, which every role of the account may use through the service (AWS Secrets
Manager User Guide, encryption and decryption)."""
_ABSENT = frozenset({"ResourceNotFoundException", "ValidationException"})


def secret_findings(cloud: Cloud, spec: GridSpec, layout: AwsLayout) -> Iterator[Finding]:
    """What is wrong with it; its value is not read. Raises CloudError."""
    arn = secret_arn(spec)
    if arn is None:
        return
    try:
        known = cloud.call("secretsmanager", "describe_secret", SecretId=arn)
    except CloudError as error:
        if error.code not in _ABSENT:
            raise
        known = {}
    if not known or "DeletedDate" in known:
        yield Finding(
            "error",
            "secret-unknown",
            f"there is no secret {arn}: no machine could ask the directory of users",
            "make it, and write its ARN into the spec: aws secretsmanager create-secret "
            f"--region {cloud.region} --name grid-directory --secret-string file://FILE",
        )
        return
    key = str(known.get("KmsKeyId", OWN_KEY))
    if not key.endswith(OWN_KEY) and key != layout.aws.kms_key:
        yield Finding(
            "error",
            "secret-of-another-key",
            f"secret {arn} is encrypted with {key}, which machines of the grid may not use",
            "encrypt it with the key of aws.kms_key, or with the one that AWS has for secrets",
        )
