"""Asks the metadata service of EC2 which instance this is, by IMDSv2."""

from __future__ import annotations

import http.client
import os
import time
import urllib.parse

from gridwright.node_programs.lustre_targets.problems import ClaimError
from gridwright.node_programs.scratch.problems import Trouble

_HOST = "http://169.254.169.254"
ENDPOINT = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
"""The variable by which the AWS SDKs find it elsewhere."""
_ANSWER_S = 2.0
_TRIES = 4
_PAUSE_S = 1.0
_LIFETIME = "300"


class Metadata:
    """One answer at a time, in bounded time; what it says stays while the machine runs."""

    def __init__(self, endpoint: str | None = None, pause_s: float = _PAUSE_S) -> None:
        self._url = urllib.parse.urlsplit(endpoint or os.environ.get(ENDPOINT) or _HOST)
        self._pause_s = pause_s
        self._known: dict[str, str] = {}

    def instance(self) -> str:
        """The ID of this instance."""
        return self.get("instance-id")

    def region(self) -> str:
        """The region that it runs in."""
        return self.get("placement/region")

    def subnet(self, mac: str) -> str:
        """The range of the subnet that one of its network interfaces is in."""
        return self.get(f"network/interfaces/macs/{mac}/subnet-ipv4-cidr-block")

    def get(self, name: str) -> str:
        """A value below /latest/meta-data/. Raises ClaimError where nobody answers."""
        if name not in self._known:
            self._known[name] = self._get(name)
        return self._known[name]

    def _get(self, name: str) -> str:
        said = ""
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(self._pause_s)
            try:
                return self._get_once(name)
            except (OSError, http.client.HTTPException) as error:
                said = str(error) or type(error).__name__
        raise ClaimError(
            Trouble(
                f"the instance metadata service at {self._url.netloc} does not tell {name}: {said}",
                "this has to run on an instance of EC2 whose metadata service is on (IMDSv2)",
            )
        )

    def _get_once(self, name: str) -> str:
        connection = http.client.HTTPConnection(
            self._url.hostname or "", self._url.port or 80, timeout=_ANSWER_S
        )
        try:
            headers = {"X-aws-ec2-metadata-token-ttl-seconds": _LIFETIME}
            token = _body(connection, "PUT", "/latest/api/token", headers)
            headers = {"X-aws-ec2-metadata-token": token}
            return _body(connection, "GET", f"/latest/meta-data/{name}", headers).strip()
        finally:
            connection.close()


def _body(connection: http.client.HTTPConnection, method: str, path: str, headers: dict[str, str]) -> str:
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read(1 << 16).decode("ascii", "replace")
    if answer.status != http.client.OK or not body.strip():
        raise http.client.HTTPException(f"{method} {path} is answered with status {answer.status}")
    return body
