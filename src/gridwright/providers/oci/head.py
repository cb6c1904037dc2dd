"""The head node of a grid on OCI, as it is reached from anywhere.

Sessions of OCI's bastion service: each forwards to one port of one machine, for three hours at most.

A session that is alive is taken again, so that a user of OCI has two of them at most, of the 20 that a
bastion has. None is ended: another command of the same user may go through it, and each ends by itself.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import time
from datetime import UTC, datetime
from typing import Any

from gridwright.errors import GridwrightError, environment_error
from gridwright.providers.cloud import host_keys, is_one_of, not_up
from gridwright.providers.oci.deploy import deployer_of
from gridwright.providers.oci.layout import GRID, LOGIN, OciLayout, OciRole, oci_layout, stack_name
from gridwright.providers.oci.resource_manager import outputs
from gridwright.providers.oci.section import LONGEST_SESSION_S
from gridwright.providers.oci.session import OciCallError, OciCloud
from gridwright.providers.provider import Caller
from gridwright.schedulers.head_node import HeadNode, LocalHeadNode
from gridwright.schedulers.ssh_head import Passage, SshHead
from gridwright.setup.distributions import distribution
from gridwright.spec.model import GridSpec

SSH_PORT = 22
LEAST_LEFT_S = 1800
"""A session that ends sooner is not taken for a new connection: with its end the connection is cut."""
READY_S = 300.0
"""For a session to become active, which takes less than a minute as a rule."""
SETTLES_S = 60.0
"""Behind that its bastion may not know the key yet, and refuse it for a while."""
_SERVICE = ("bastion", "BastionClient")
_HOST = re.compile(r"@(host\.bastion\.[a-z0-9.-]+)")
"""Where the service says that a session is connected to, in the command that it shows."""


class BastionSessions:
    """Passages to one machine through a bastion; see SshGate."""

    def __init__(self, cloud: OciCloud, bastion: str, target: str, key: str, *, poll_s: float = 3.0) -> None:
        """`bastion` is its OCID, `target` an address of the grid, `key` the public key that is let in."""
        self._cloud, self._bastion, self._target, self._key = cloud, bastion, target, key
        self._poll_s = poll_s
        self._passage: Passage | None = None
        self._ends = 0.0

    def passage(self) -> Passage:
        """See SshGate: the last one while it lasts, else one that is there, else a new one."""
        now = time.time()
        if self._passage is None or self._ends - now < LEAST_LEFT_S:
            session, is_new = self._usable_session() or (self._made(), True)
            session = self._active(session.id)
            self._ends = _end(session)
            self._passage = Passage(
                session.id,
                _host(session, self._cloud.region),
                self._target,
                SSH_PORT,
                time.monotonic() + SETTLES_S if is_new else 0.0,
            )
        return self._passage

    def lost(self) -> None:
        """See SshGate: somebody may have ended the session."""
        self._passage = None

    @property
    def advice(self) -> str:
        """See SshGate."""
        way = "" if self._passage is None else f": {_by_hand(self._passage)}"
        return f"your address has to be in oci.ssh_from; try it by hand{way}"

    @property
    def name(self) -> str:
        """Of sessions: one for each user, so that OCI's audit tells who came in, and for each key."""
        whose = f"{self._cloud.config.get('user', '')} {self._key} {self._target}"
        return f"gridwright-{hashlib.sha256(whose.encode()).hexdigest()[:16]}"

    def _usable_session(self) -> tuple[Any, bool] | None:
        """The session that lasts longest, and whether it is new; None where none lasts long enough."""
        for state in ("ACTIVE", "CREATING"):
            listed = self._cloud.listed(
                *_SERVICE, "list_sessions", self._bastion, display_name=self.name,
                session_lifecycle_state=state,
            )  # fmt: skip
            left = [each for each in listed if _end(each) - time.time() >= LEAST_LEFT_S]
            if left:
                return max(left, key=_end), state == "CREATING"
        return None

    def _made(self) -> Any:  # noqa: ANN401 - the SDK has no types
        from oci.bastion import models

        details = models.CreateSessionDetails(
            bastion_id=self._bastion,
            display_name=self.name,
            key_type="PUB",
            key_details=models.PublicKeyDetails(public_key_content=self._key),
            session_ttl_in_seconds=LONGEST_SESSION_S,
            target_resource_details=models.CreatePortForwardingSessionTargetResourceDetails(
                target_resource_private_ip_address=self._target, target_resource_port=SSH_PORT
            ),
        )
        try:
            return self._cloud.call(*_SERVICE, "create_session", details)
        except OciCallError as error:
            if "LimitExceeded" not in f"{error.code} {error}":
                raise
            raise environment_error(
                "the grid's bastion has as many sessions as it may have",
                where=f"OCI, {self._cloud.region}, {self._bastion}",
                remedy="end some that nobody uses: oci bastion session list and delete, or the console "
                "under Bastions; each ends by itself after three hours",
            ) from error

    def _active(self, ocid: str) -> Any:  # noqa: ANN401
        """The session, once it is active. Raises GridwrightError where it is not in time, or fails."""
        deadline = time.monotonic() + READY_S
        while True:
            session = self._cloud.call(*_SERVICE, "get_session", ocid)
            if session.lifecycle_state == "ACTIVE":
                return session
            if session.lifecycle_state != "CREATING":
                raise self._unready(session, "ended before anybody came in")
            if time.monotonic() > deadline:
                raise self._unready(session, f"is not active after {READY_S / 60:.0f} min")
            time.sleep(self._poll_s)

    def _unready(self, session: Any, how: str) -> GridwrightError:  # noqa: ANN401
        details = session.lifecycle_details
        return environment_error(
            f"session {session.id} of the grid's bastion {how}: {session.lifecycle_state.lower()}"
            f"{f', {details}' if details else ''}",
            where=f"OCI, {self._cloud.region}",
            remedy="look at the bastion in the console; run the same command again for a new session",
        )


def _end(session: Any) -> float:  # noqa: ANN401
    """When a session ends, in seconds since 1970."""
    began = session.time_created or datetime.now(UTC)
    return float(began.timestamp() + session.session_ttl_in_seconds)


def _by_hand(passage: Passage) -> str:
    gate = f"ssh -W {passage.target}:{passage.port} {passage.user}@{passage.host}"
    return f"ssh -o ProxyCommand={shlex.quote(gate)} {passage.target}"


def _host(session: Any, region: str) -> str:  # noqa: ANN401
    """Where ssh connects to: as the session itself says, since realms differ in their domain."""
    said = _HOST.search((session.ssh_metadata or {}).get("command", ""))
    return said[1] if said else f"host.bastion.{region}.oci.oraclecloud.com"


def oci_head(spec: GridSpec) -> HeadNode:
    """The head node of a grid: this machine where it is one of the grid's, else ssh.

    The way there is the bastion host, or a session of the bastion service to the grid control server, from
    which the other machines are reached. Raises GridwrightError: INPUT where the grid cannot be built as it
    is written, ENVIRONMENT where it is not up, OCI does not tell, or the service leads to no machine.
    """
    layout = oci_layout(spec)
    cards = ((each.name, one) for each in layout.machines for one in (each.address, each.second_address))
    if is_one_of(cards):
        return LocalHeadNode()
    where = str(spec.file) if spec.file else None
    controllers = layout.of_role(OciRole.HEAD)
    has_service = layout.oci.bastion == "service"
    if has_service and not controllers:
        raise environment_error(
            f"grid {spec.name} has no grid control server, which the bastion service would lead to",
            where=where,
            remedy="write a scheduler that has one, such as slurm, or bastion: host in section oci",
        )
    cloud = OciCloud(str(spec.region))
    deployer = deployer_of(spec, layout.oci, cloud, Caller())
    stack = deployer.find(stack_name(spec.name, GRID))
    known = {} if stack is None else outputs(deployer.state(stack))
    way_in = known.get("bastion" if has_service else "login")
    if not way_in:
        raise not_up(spec)
    user = login_user(layout)
    keys = host_keys(spec, json.dumps(known.get("instances", {}), sort_keys=True))
    if not controllers:
        return SshHead(LOGIN, way_in, user=user, keys=keys)
    head = controllers[0]
    if has_service:
        address = str(head.serving_address)
        gate = BastionSessions(cloud, way_in, address, layout.oci.ssh_key)
        return SshHead(head.name, address, user=user, keys=keys, gate=gate)
    return SshHead(head.name, head.name, through=way_in, user=user, keys=keys)


def login_user(layout: OciLayout) -> str:
    """Whom the key of the spec lets in: by the spec, else by the distribution."""
    found = distribution(layout.oci.distribution)
    return layout.oci.user or found.oci_user or found.user
