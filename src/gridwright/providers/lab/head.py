"""The controller of a lab as the head node of its grid."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence

from gridwright.commands import CommandOutput
from gridwright.errors import environment_error
from gridwright.providers.lab.network import listen
from gridwright.providers.lab.node import Node, node_of
from gridwright.providers.lab.owner import record_for
from gridwright.spec.model import GridSpec


class LabHead:
    """See HeadNode. Every call first checks that the controller is still the same one."""

    nodes_share_python = True
    sees_state = True

    def __init__(self, node: Node) -> None:
        self._node = node
        self.name = node.name

    @classmethod
    def of(cls, spec: GridSpec) -> LabHead:
        """The controller of a lab. Raises GridwrightError (ENVIRONMENT) where it is not up, or another's."""
        record = record_for(spec)
        if record is None or not record.is_up:
            raise environment_error(
                f"lab {spec.name} is not up",
                where=str(spec.file) if spec.file else None,
                remedy=f"run gridwright up {spec.file or 'FILE'}",
            )
        return cls(node_of(record, record.layout.controller.name))

    def run(
        self,
        command: Sequence[str],
        *,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
    ) -> CommandOutput:
        """Run a command on the controller; see HeadNode."""
        chosen = dict(os.environ) if environment is None else environment
        return self._node.run(command, stdin=stdin, environment=chosen, timeout_s=timeout_s)

    def argv(self, command: Sequence[str]) -> list[str]:
        """The command line that runs a command on the controller from here, in `/`."""
        return self._node.argv(command)

    def ssh(self, words: Sequence[str], port: int | None = None) -> list[str]:
        """The controller's ssh; nodes reach every port of the controller."""
        return self.argv(["ssh", *words])

    def listen(self) -> tuple[socket.socket, str]:
        """A TCP socket in the network of the lab, on the controller's address."""
        self._node.check()
        try:
            return listen(self._node.process.pid, self._node.address), self._node.address
        except OSError as error:
            raise environment_error(
                f"cannot listen in the network of the lab: {error}",
                where=self.name,
                remedy="see gridwright status",
            ) from error
