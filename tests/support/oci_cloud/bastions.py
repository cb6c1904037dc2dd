"""The bastion service of the double: sessions, as its API takes them (oci SDK 2.189.0, oci.bastion)."""

from __future__ import annotations

import ipaddress
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from oci.bastion import models

from tests.support.oci_cloud.account import Answer, refused

MOST = 20
"""Active sessions of one bastion."""
SHORTEST_S = 1800
"""Least time-to-live of a session."""
_KEY = re.compile(r"(?:ssh-rsa|ssh-ed25519|ecdsa-sha2-nistp\d+) [A-Za-z0-9+/=]+(?: [^\n]*)?$")


@dataclass
class Bastions:
    """Sessions by OCID, as the service shows them."""

    sessions: dict[str, dict[str, Any]] = field(default_factory=dict)
    looks: int = 1
    """A session is active once it was looked at so often."""
    ends_as: str = "ACTIVE"
    hides_command: bool = False
    count: Iterator[int] = field(default_factory=itertools.count)

    def answer(
        self,
        method: str,
        rest: Sequence[str],
        query: dict[str, str],
        body: Any,
        bastions: Sequence[dict[str, Any]],
    ) -> Answer:
        """The answer to a request for sessions; `bastions` are those that Terraform has made."""
        if method == "POST" and not rest:
            return self._make(body, {each["shown"]["id"]: each["values"] for each in bastions})
        if method == "GET" and not rest:
            found = [each for each in self.sessions.values() if each["bastionId"] == query["bastionId"]]
            for name, key in (("displayName", "displayName"), ("sessionLifecycleState", "lifecycleState")):
                found = [each for each in found if name not in query or each[key] == query[name]]
            hidden = ("keyDetails", "sshMetadata", "looks")
            return 200, [{k: v for k, v in each.items() if k not in hidden} for each in found]
        if method != "GET" or rest[0] not in self.sessions:
            return refused(404, "NotAuthorizedOrNotFound", "session")
        session = self.sessions[rest[0]]
        session["looks"] += 1
        if session["lifecycleState"] == "CREATING" and session["looks"] > self.looks:
            session |= {"lifecycleState": self.ends_as, "lifecycleDetails": "no endpoint"}
        return 200, session

    def _make(self, body: dict[str, Any], bastions: dict[str, Any]) -> Answer:
        if why := _wrong(body, bastions):
            return refused(400, "InvalidParameter", why)
        active = [each for each in self.sessions.values() if each["lifecycleState"] in ("ACTIVE", "CREATING")]
        if len(active) >= MOST:
            return refused(400, "LimitExceeded", "maxSessionsAllowed")
        session = self.put(body)
        return 200, session

    def put(self, body: dict[str, Any], age_s: float = 0.0) -> dict[str, Any]:
        """A session that was made `age_s` seconds ago."""
        ocid = f"ocid1.bastionsession.oc1.iad.{next(self.count)}"
        target = body["targetResourceDetails"]
        way = f"{target['targetResourcePrivateIpAddress']}:{target['targetResourcePort']}"
        command = f"ssh -i <privateKey> -N -L <localPort>:{way} -p 22 {ocid}@host.bastion.iad.example.com"
        self.sessions[ocid] = {
            **body,
            "id": ocid,
            "bastionName": "gridwright",
            "lifecycleState": "CREATING",
            "timeCreated": (datetime.now(UTC) - timedelta(seconds=age_s)).isoformat(),
            "sshMetadata": {} if self.hides_command else {"command": command},
            "looks": 0,
        }
        return self.sessions[ocid]


def _wrong(body: dict[str, Any], bastions: dict[str, Any]) -> str | None:
    """Why a request for a session is refused."""
    allowed = set(models.CreateSessionDetails().attribute_map.values())
    target_model = models.CreatePortForwardingSessionTargetResourceDetails()
    target = body["targetResourceDetails"]
    if unknown := {*set(body) - allowed, *set(target) - set(target_model.attribute_map.values())}:
        return f"unknown {unknown}"
    if body["bastionId"] not in bastions:
        return "bastionId"
    if target["sessionType"] != "PORT_FORWARDING" or target["targetResourcePort"] != 22:
        return f"{target}: a managed session needs the agent's plugin"
    ipaddress.IPv4Address(target["targetResourcePrivateIpAddress"])
    longest = bastions[body["bastionId"]]["max_session_ttl_in_seconds"]
    if not SHORTEST_S <= body["sessionTtlInSeconds"] <= longest:
        return f"sessionTtlInSeconds {body['sessionTtlInSeconds']}"
    if body["keyType"] != "PUB" or not _KEY.match(body["keyDetails"]["publicKeyContent"]):
        return "publicKeyContent"
    return None
