"""The table that says which instance is which machine, and which volumes it owns.

Where it holds claims of volumes, it stays when the stack lets go of it, like the volumes. It has no deletion
protection of DynamoDB's: a stack that fails when it is made first could not be rolled back then, and the
table would be in the way of the next one.
"""

from __future__ import annotations

from troposphere import Tags, dynamodb

from gridwright.providers.aws.names import claims_table, tags
from gridwright.providers.aws.retention import deletion_policy
from gridwright.providers.aws.section import Aws
from gridwright.spec.model import GridSpec

CLAIMS_TABLE = "ClaimsTable"
"""Its logical ID."""
KEY = "slot"


def claims_table_resource(spec: GridSpec, *, holds_data: bool) -> dynamodb.Table:
    """The table; `holds_data` where volumes of a Lustre are in it."""
    aws = spec.section(Aws)
    key = aws.kms_key if aws else None
    return dynamodb.Table(
        CLAIMS_TABLE,
        TableName=claims_table(spec),
        AttributeDefinitions=[dynamodb.AttributeDefinition(AttributeName=KEY, AttributeType="S")],
        KeySchema=[dynamodb.KeySchema(AttributeName=KEY, KeyType="HASH")],
        BillingMode="PAY_PER_REQUEST",
        PointInTimeRecoverySpecification=dynamodb.PointInTimeRecoverySpecification(
            PointInTimeRecoveryEnabled=True
        ),
        SSESpecification=dynamodb.SSESpecification(
            SSEEnabled=True, **({"SSEType": "KMS", "KMSMasterKeyId": key} if key else {})
        ),
        Tags=Tags(tags(spec, role="claims")),
        **deletion_policy(holds_data),
    )
