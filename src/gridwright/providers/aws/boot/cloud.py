"""What a machine on AWS asks of AWS and tells it while it sets itself up.

set_up.py is beside it in the bundle, and knows no cloud: each cloud has a module of this name with a class
Cloud of these methods. It needs Python 3.9 and boto3.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parent))

from system_packages import PAUSE_S, TRIES, Failed, say  # type: ignore[import-not-found]

_Answer = TypeVar("_Answer")
METADATA = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254")


class Cloud:
    """AWS, as this machine's role lets it in. `settings` are those of boot.json."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.arn = ""

    def find(self) -> None:
        """Learn which machine this is. Raises Failed where the metadata service does not tell."""
        self.arn = instance_arn()

    @property
    def instance(self) -> str:
        """Its ID; empty before `find`."""
        return self.arn.rpartition("/")[2]

    def secret(self, what: str, secret: str) -> str:
        """The text of a secret by its ARN; `what` says which one to who reads the log. Raises Failed."""
        service = client("secretsmanager", self.settings)
        return str(call_with_retries(what, lambda: service.get_secret_value(SecretId=secret)["SecretString"]))

    def tell(self, texts: dict[str, str], tries: int) -> None:
        """Put a report of this boot into the table of claims."""
        known = {"slot": f"boot#{self.arn}", "instance": self.instance, **texts}
        item = {**{name: {"S": text} for name, text in known.items()}, "tries": {"N": str(tries)}}
        table = client("dynamodb", self.settings)
        table.put_item(TableName=self.settings["table"], Item=item)

    def keep_log(self, name: str, content: bytes) -> None:
        """Put a log into the grid's bucket, below the ARN of this machine: it may write nowhere else."""
        key = f"boot-logs/{self.arn}/{name}"
        client("s3", self.settings).put_object(Bucket=self.settings["bucket"], Key=key, Body=content)

    def count_failure(self) -> None:
        """Count it where the grid's alarm looks."""
        dimension = {"Name": "Grid", "Value": self.settings["table"][len("gridwright-") : -len("-claims")]}
        datum = {"MetricName": "SetUpFailures", "Dimensions": [dimension], "Value": 1.0, "Unit": "Count"}
        metrics = client("cloudwatch", self.settings)
        metrics.put_metric_data(Namespace="Gridwright", MetricData=[datum])

    def give_up(self) -> None:
        """Have the group replace this machine, whose log is in the bucket."""
        groups = client("autoscaling", self.settings)
        groups.set_instance_health(InstanceId=self.instance, HealthStatus="Unhealthy")


def client(service: str, settings: dict[str, Any]) -> Any:  # noqa: ANN401 - boto3 has no types of its own
    """A client that gives up after some minutes at most."""
    import boto3
    from botocore.config import Config

    config = Config(connect_timeout=10, read_timeout=60, retries={"max_attempts": 8, "mode": "standard"})
    return boto3.client(service, region_name=settings["region"], config=config)


def call_with_retries(what: str, call: Callable[[], _Answer]) -> _Answer:
    """Call AWS again until it answers: a role that was just made is not known everywhere at once."""
    for attempt in range(TRIES):
        try:
            return call()
        except Exception as error:
            say(f"{what}: {error}")
            last = str(error)
        time.sleep(PAUSE_S if attempt < TRIES - 1 else 0)
    raise Failed(f"{what}: {last}")


def instance_arn() -> str:
    """Of this machine, from its metadata service: arn:aws:ec2:us-east-1:123456789012:instance/i-0123."""
    headers = {"X-aws-ec2-metadata-token-ttl-seconds": "300"}
    token = {"X-aws-ec2-metadata-token": ask("PUT", METADATA + "/latest/api/token", headers)}
    known = json.loads(ask("GET", METADATA + "/latest/dynamic/instance-identity/document", token))
    partition = ask("GET", METADATA + "/latest/meta-data/services/partition", token).strip()
    return f"arn:{partition}:ec2:{known['region']}:{known['accountId']}:instance/{known['instanceId']}"


def ask(method: str, url: str, headers: dict[str, str]) -> str:
    """One request to the metadata service, which needs no proxy; a few times where nobody answers."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for attempt in range(TRIES):
        try:
            request = urllib.request.Request(url, headers=headers, method=method)  # noqa: S310
            with opener.open(request, timeout=20) as answer:
                return bytes(answer.read(1 << 16)).decode("ascii", "replace")
        except OSError as error:
            last = getattr(error, "reason", error)
            if 400 <= getattr(error, "code", 0) < 500:
                break
        time.sleep(PAUSE_S if attempt < TRIES - 1 else 0)
    raise Failed(f"{url} is not answered: {last}")
