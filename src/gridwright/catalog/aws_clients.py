"""Clients of AWS for the catalogue, bounded in time and tries; what goes wrong is told in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gridwright.errors import environment_error, input_error, nearest
from gridwright.own_directories import hold_settings_of_home

CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 30
ATTEMPTS = 5
"""Tries of one request, with growing pauses, before the command gives up."""

Clients = Callable[[str, str], Any]
"""Makes a client of a service (first) in a region (second)."""

_ADVICE = (
    "set AWS credentials as for the AWS command line (AWS_PROFILE, or aws configure) with the rights "
    "ec2:DescribeInstanceTypes and pricing:GetProducts; the packaged catalogue works without any"
)


def boto3_clients(regions: Sequence[str]) -> Clients:
    """Clients with bounded time and tries; checks the regions first, without the network."""
    try:
        import boto3
        from botocore.config import Config
    except ImportError:
        raise environment_error(
            "boto3 is not installed, and the cloud is asked through it",
            remedy="pip install 'gridwright[aws]'; the packaged catalogue works without it",
        ) from None
    hold_settings_of_home()
    session = boto3.session.Session()
    names = [
        name
        for partition in ("aws", "aws-us-gov", "aws-cn")
        for name in session.get_available_regions("ec2", partition_name=partition)
    ]
    for region in regions:
        if region not in names:
            close = nearest(region, names)
            hint = f"the nearest is {close}" if close else f"regions are {', '.join(names)}"
            raise input_error(f"AWS has no region {region[:64]!r}", where="--region", remedy=hint)
    config = Config(
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=READ_TIMEOUT_S,
        retries={"total_max_attempts": ATTEMPTS, "mode": "standard"},
    )
    return lambda service, region: session.client(service, region_name=region, config=config)


@contextmanager
def cloud_errors() -> Iterator[None]:
    """Turn what goes wrong between here and the cloud into one sentence and what to do."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(("botocore", "boto3", "s3transfer", "urllib3")):
            raise
        kind = type(error).__name__
        code = getattr(error, "response", {}).get("Error", {}).get("Code", "")
        if "Credential" in kind or "Token" in kind or kind in ("ProfileNotFound", "LoginRefreshRequired"):
            raise environment_error(f"AWS was not asked: {error}", remedy=_ADVICE) from error
        if code:
            raise environment_error(f"AWS refused: {error}", remedy=_ADVICE) from error
        raise environment_error(
            f"AWS did not answer: {error}",
            remedy="look at the network and the proxy settings, and try again; nothing was written",
        ) from error
