"""Users of a lab: the accounts of its spec on every node, and SSSD where it names a directory of users."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from gridwright.errors import environment_error
from gridwright.node_programs.users.configuration import CONFIGURATION
from gridwright.node_programs.users_program import PROGRAM, build_zipapp
from gridwright.providers.lab.service import RunningLab
from gridwright.services.daemon import last_words, on_each
from gridwright.services.service import ServiceNode
from gridwright.setup.users_spec import secret_of, users_configuration

_LIMIT_S = 120.0
_ANSWERS = "pidof -q sssd && test -S /var/lib/sss/pipes/nss"


class LabUsers:
    """The program that the playbook runs elsewhere, on the controller and on nodes that run jobs."""

    name = "users"
    patience_s = 60.0

    def __init__(self, nodes: Sequence[str]) -> None:
        self.nodes = nodes

    def prepare(self, lab: RunningLab, nodes: Sequence[str]) -> None:
        """Write who is to be there, and the secret of the directory as this machine has it."""
        configuration = users_configuration(lab.spec)
        secret = secret_of(lab.spec.users)
        content = _secret(Path(secret)) if secret is not None else None

        def put(node: ServiceNode) -> None:
            known = {**configuration, "makes_homes": node.name == lab.controller}
            node.write(str(PROGRAM), build_zipapp(), mode=0o755)
            node.write(str(CONFIGURATION), json.dumps(known, indent=2) + "\n")
            if secret is not None and content is not None:
                node.write(secret, content, mode=0o600)

        on_each(lab, nodes, put)

    def start(self, lab: RunningLab, nodes: Sequence[str]) -> None:
        """Make accounts, and homes where they are each node's own."""
        shared = lab.spec.users is not None and lab.spec.users.homes is not None
        on_each(lab, nodes, lambda node: _run(node, *(["--no-homes"] if shared else [])))

    def lacking(self, lab: RunningLab, node: str) -> str | None:
        """Where there is a directory of users, SSSD answers."""
        if lab.spec.users is None or lab.spec.users.directory is None:
            return None
        answer = lab.nodes[node].run(["sh", "-c", _ANSWERS], timeout_s=4.0)
        return None if answer.status == 0 else "sssd does not run"


def make_homes(lab: RunningLab) -> None:
    """Make those on a shared file system, once that is mounted. Raises GridwrightError (ENVIRONMENT)."""
    if lab.spec.users is not None and lab.spec.users.homes is not None:
        _run(lab.nodes[lab.controller])


def _secret(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise environment_error(
            f"the secret of the directory of users: {error.strerror}",
            where=str(path),
            remedy="write it into that file on this machine; nodes of the lab get a copy",
        ) from error


def _run(node: ServiceNode, *options: str) -> None:
    command = ["python3", str(PROGRAM), *options]
    answer = node.start(command, timeout_s=_LIMIT_S)
    if answer.status:
        raise environment_error(
            f"users cannot be made: {last_words(answer.stderr)}",
            where=node.name,
            remedy="correct section users of the grid spec, or what it names",
        )
