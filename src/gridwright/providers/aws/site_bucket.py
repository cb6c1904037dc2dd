"""The bucket that machines get the bundle from which they set themselves up.

It holds nothing of the user's: `down` empties it, and it goes with the stack. A bundle that `up` deletes,
since no machine starts from it any more, stays as an old version for some days: the way back from a bad
update. Access to it is not logged: a log needs a second bucket, and CloudTrail can have these events.
"""

from __future__ import annotations

from collections.abc import Iterator

from troposphere import AWSObject, GetAtt, Ref, Sub, Tags, s3

from gridwright.providers.aws.names import tags
from gridwright.providers.aws.section import Aws
from gridwright.providers.boot.bundle import LOGS
from gridwright.spec.model import GridSpec

SITE_BUCKET = "SiteBucket"
"""Its logical ID; CloudFormation names it, since names of buckets are taken by all accounts of the world."""
OLD_BUNDLE_DAYS = 30
"""For how long an old version of a bundle is kept, and a log of a machine that failed to set itself up."""


def site_bucket_resources(spec: GridSpec) -> Iterator[AWSObject]:
    """The bucket and its policy."""
    yield s3.Bucket(
        SITE_BUCKET,
        BucketEncryption=s3.BucketEncryption(
            ServerSideEncryptionConfiguration=[
                _encryption(aws.kms_key if (aws := spec.section(Aws)) else None)
            ]
        ),
        VersioningConfiguration=s3.VersioningConfiguration(Status="Enabled"),
        LifecycleConfiguration=s3.LifecycleConfiguration(
            Rules=[
                s3.LifecycleRule(
                    Id="old-bundles",
                    Status="Enabled",
                    NoncurrentVersionExpiration=s3.NoncurrentVersionExpiration(
                        NoncurrentDays=OLD_BUNDLE_DAYS
                    ),
                    AbortIncompleteMultipartUpload=s3.AbortIncompleteMultipartUpload(DaysAfterInitiation=1),
                ),
                s3.LifecycleRule(
                    Id="old-logs", Status="Enabled", Prefix=LOGS, ExpirationInDays=OLD_BUNDLE_DAYS
                ),
            ]
        ),
        OwnershipControls=s3.OwnershipControls(
            Rules=[s3.OwnershipControlsRule(ObjectOwnership="BucketOwnerEnforced")]
        ),
        PublicAccessBlockConfiguration=s3.PublicAccessBlockConfiguration(
            BlockPublicAcls=True, BlockPublicPolicy=True, IgnorePublicAcls=True, RestrictPublicBuckets=True
        ),
        Tags=Tags(tags(spec, role="bundle")),
        DeletionPolicy="Delete",
        UpdateReplacePolicy="Delete",
    )
    yield s3.BucketPolicy(
        f"{SITE_BUCKET}Policy",
        Bucket=Ref(SITE_BUCKET),
        PolicyDocument={
            "Version": "2012-10-17",
            "Statement": [
                _denied("OnlyOverTls", {"Bool": {"aws:SecureTransport": "false"}}),
                _denied("OnlyOverTls12", {"NumericLessThan": {"s3:TlsVersion": "1.2"}}),
            ],
        },
    )


def _encryption(key: str | None) -> s3.ServerSideEncryptionRule:
    if key is None:
        by_default = s3.ServerSideEncryptionByDefault(SSEAlgorithm="AES256")
        return s3.ServerSideEncryptionRule(ServerSideEncryptionByDefault=by_default)
    by_default = s3.ServerSideEncryptionByDefault(SSEAlgorithm="aws:kms", KMSMasterKeyID=key)
    return s3.ServerSideEncryptionRule(BucketKeyEnabled=True, ServerSideEncryptionByDefault=by_default)


def _denied(name: str, condition: dict[str, object]) -> dict[str, object]:
    return {
        "Sid": name,
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": [GetAtt(SITE_BUCKET, "Arn"), Sub(f"${{{SITE_BUCKET}.Arn}}/*")],
        "Condition": condition,
    }
