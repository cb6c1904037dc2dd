"""What requests cost, for dry runs: list prices of S3 Standard in us-east-1, without traffic and storage.

Source: aws.amazon.com/s3/pricing, "Requests & data retrievals"; the same in
c3x.dev/blog/s3-request-fees-explained, read 2026-11-25. Another store has others.
"""

from __future__ import annotations

from collections.abc import Mapping

_PER_1000 = {
    "put": 0.005,
    "copy": 0.005,
    "list": 0.005,
    "get": 0.0004,
    "head": 0.0004,
    "delete": 0.0,
    "probe": 0.005,
}


def cost(requests: Mapping[str, int]) -> float:
    """USD for so many requests of each kind; what is not listed there costs nothing."""
    return sum(_PER_1000.get(kind, 0.0) * count / 1000 for kind, count in requests.items())
