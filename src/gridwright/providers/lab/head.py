"""The controller of a lab as the head node of its grid."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from gridwright.commands import CommandNotStarted, CommandOutput
from gridwright.errors import GridwrightError, environment_error
from gridwright.providers.lab.layout import LabRole
from gridwright.providers.lab.network import listen
from gridwright.providers.lab.node import Node, node_of
from gridwright.providers.lab.owner import record_for
from gridwright.providers.lab.places import Places
from gridwright.providers.lab.record import LabRecord, read
from gridwright.schedulers import kind_of
from gridwright.schedulers.head_node import HeadNodeUnreachable
from gridwright.services.connections import Listener
from gridwright.spec.model import GridSpec


class LabHead:
    """See HeadNode. Every call looks up the controller as it is now: it may have been powered off and on.

    While it is off, a node that takes over for it is the head node.
    """

    nodes_share_python = True
    sees_state = True

    def __init__(
        self, record: LabRecord, spec_file: Path | None = None, standbys: Sequence[str] = ()
    ) -> None:
        """`record` is of a lab that is up; `standbys` are nodes that take over, in their order."""
        self._lab = record.lab
        self._spec_file = spec_file
        self._controller = record.layout.controller.name
        self._standbys = standbys

    @property
    def name(self) -> str:
        """The controller, or the node that has taken over."""
        record = read(self._lab)
        return self._controller if record is None or not record.is_up else self._serving(record)

    @classmethod
    def of(cls, spec: GridSpec) -> LabHead:
        """The controller of a lab. Raises GridwrightError (ENVIRONMENT) where it is not up, or another's."""
        record = record_for(spec)
        if record is None or not record.is_up:
            raise _not_up(spec, record)
        workers = [node.name for node in record.layout.of_role(LabRole.COMPUTE)]
        head = cls(record, spec.file, kind_of(spec.scheduler).standbys(spec, workers))
        head._now()
        return head

    def run(
        self,
        command: Sequence[str],
        *,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
    ) -> CommandOutput:
        """Run a command on the controller; see HeadNode.

        Raises HeadNodeUnreachable also where the controller was powered off while the command ran.
        """
        chosen = dict(os.environ) if environment is None else environment
        node = self._now()
        try:
            answer = node.run(command, stdin=stdin, environment=chosen, timeout_s=timeout_s)
        except CommandNotStarted:
            self._must_live(node)
            raise
        if answer.status != 0:
            # What a power failure killed has said nothing of its own.
            self._must_live(node)
        return answer

    def argv(self, command: Sequence[str]) -> list[str]:
        """The command line that runs a command on the controller from here, in `/`."""
        return self._now().argv(command)

    def ssh(self, words: Sequence[str], port: int | None = None) -> list[str]:
        """The controller's ssh; nodes reach every port of the controller."""
        return self.argv(["ssh", *words])

    def listen(self) -> tuple[Listener, str]:
        """A TCP socket in the network of the lab, on the controller's address."""
        node = self._now()
        try:
            return listen(node.process.pid, node.address), node.address
        except OSError as error:
            self._must_live(node)
            raise environment_error(
                f"cannot listen in the network of the lab: {error}",
                where=self.name,
                remedy="see gridwright status",
            ) from error

    def _now(self) -> Node:
        """The controller as it is now. Raises HeadNodeUnreachable where it is off, or the lab is down."""
        record = read(self._lab)
        if record is None or not record.is_up:
            remedy = f"run gridwright up {self._spec_file or 'FILE'}"
            raise HeadNodeUnreachable(f"lab {self._lab} is not up any more", self._controller, remedy)
        name = self._serving(record)
        if not record.node(name).up:
            raise self._off()
        return node_of(record, name)

    def _serving(self, record: LabRecord) -> str:
        """The first of those that are up; the controller where none is."""
        able = [name for name in (self._controller, *self._standbys) if record.node(name).up]
        return able[0] if able else self._controller

    def _must_live(self, node: Node) -> None:
        if not node.process.alive:
            raise self._off()

    def _off(self) -> HeadNodeUnreachable:
        return HeadNodeUnreachable(
            f"node {self._controller} of lab {self._lab} is powered off",
            self._controller,
            f"run gridwright lab power-on {self._controller}",
        )


def _not_up(spec: GridSpec, record: LabRecord | None) -> GridwrightError:
    """The error of a lab that is not up on this machine, which may be a node of it."""
    where = str(spec.file) if spec.file else None
    if record is None and Places(spec.name).state.is_dir():
        return environment_error(
            f"this machine is a node of lab {spec.name}, and the spec is for the machine that the lab is on",
            where=where,
            remedy="name a spec for nodes: provider: site, hosts: and state:, as gridwright help lab has it",
        )
    root = "" if os.geteuid() == 0 else "as root "
    remedy = f"{root}run gridwright up {spec.file or 'FILE'}"
    return environment_error(f"lab {spec.name} is not up", where=where, remedy=remedy)
