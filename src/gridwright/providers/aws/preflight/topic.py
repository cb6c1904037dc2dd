"""Whether alarms of a grid reach somebody by the SNS topic of its spec."""

from __future__ import annotations

from collections.abc import Iterator

from gridwright.errors import Finding
from gridwright.providers.aws.layout import AwsLayout
from gridwright.providers.aws.session import Cloud, CloudError

AWS_KEY = "alias/aws/sns"
"""The key that AWS has for SNS: its policy cannot be changed, and does not let CloudWatch use it (Amazon
CloudWatch User Guide, alarms and actions; Amazon SNS Developer Guide, encryption at rest)."""
_ABSENT = frozenset({"NotFound", "NotFoundException"})


def topic_findings(cloud: Cloud, layout: AwsLayout, account: str) -> Iterator[Finding]:
    """What is wrong with the topic that the spec names. Raises CloudError."""
    if layout.aws.alarms is None:
        return
    topic = layout.aws.alarms.topic
    try:
        known = cloud.call("sns", "get_topic_attributes", TopicArn=topic)["Attributes"]
    except CloudError as error:
        if error.code not in _ABSENT:
            raise
        yield Finding(
            "error",
            "topic-unknown",
            f"there is no SNS topic {topic}: no alarm of the grid would reach anybody",
            f"make it: aws sns create-topic --region {cloud.region} --name {topic.rpartition(':')[2]}",
        )
        return
    key = str(known.get("KmsMasterKeyId", ""))
    if key.endswith(AWS_KEY):
        yield Finding(
            "error",
            "topic-closed",
            f"SNS topic {topic} is encrypted with {AWS_KEY}, which CloudWatch cannot use: its alarms are not "
            "delivered",
            "encrypt it with a key of yours whose policy allows cloudwatch.amazonaws.com kms:Decrypt and "
            "kms:GenerateDataKey, or with none",
        )
    if str(known.get("SubscriptionsConfirmed", "")) == "0":
        yield Finding(
            "warning",
            "topic-unheard",
            f"nobody has confirmed a subscription to SNS topic {topic}: alarms reach nobody",
            f"aws sns subscribe --region {cloud.region} --topic-arn {topic} --protocol email "
            "--notification-endpoint ADDRESS, and confirm the message that comes",
        )
    if layout.aws.alarms.budget and "budgets.amazonaws.com" not in str(known.get("Policy", "")):
        yield Finding(
            "warning",
            "topic-without-budgets",
            f"the policy of SNS topic {topic} does not name budgets.amazonaws.com: nobody learns that the "
            "budget is spent",
            "allow that service sns:Publish in the topic's policy",
        )
    if topic.split(":")[4] != account and "cloudwatch.amazonaws.com" not in str(known.get("Policy", "")):
        yield Finding(
            "warning",
            "topic-elsewhere",
            f"SNS topic {topic} is of another account, and its policy does not name cloudwatch.amazonaws.com",
            f"allow that service sns:Publish in its policy, for alarms of account {account}",
        )
