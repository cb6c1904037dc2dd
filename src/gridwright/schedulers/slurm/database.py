"""The accounting of Slurm in a lab: MariaDB and slurmdbd on the controller."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import PurePosixPath

from gridwright.schedulers.in_lab import SchedulerNodes
from gridwright.schedulers.slurm.configuration import (
    DATABASE_CONFIGURATION,
    DIRECTORY,
    LOGS,
    USER,
    slurm_configuration,
)
from gridwright.schedulers.slurm.daemons import lab_parameters
from gridwright.services.daemon import call, make_directory, runs, start_daemon, wait_for
from gridwright.services.service import ServiceNode

DATA = PurePosixPath("/var/lib/slurm/mariadb")
"""Where MariaDB keeps its tables. It runs as the user of slurmdbd, so that none of its own is needed."""
_SOCKET = PurePosixPath("/run/mysqld/mysqld.sock")
"""Where slurmdbd looks for a database on its own machine, as Debian builds libmariadb."""
_SERVER = (
    *("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"),
    *("/usr/sbin/mariadbd", "--no-defaults", f"--datadir={DATA}", "--skip-networking"),
    *("--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M"),
)
_STATEMENTS = PurePosixPath("/usr/share/mysql")
_TABLES = ("mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql")
_BEFORE_TABLES = f"create database mysql;\nuse mysql;\nset @auth_root_socket='{USER}';\n".encode()
"""As in mariadb-install-db(1) with --auth-root-authentication-method=socket."""


class MariaDb:
    """The database server, reached by its socket alone."""

    name = "mariadbd"
    patience_s = 60.0

    def __init__(self, controller: str) -> None:
        self.nodes = [controller]

    def prepare(self, lab: SchedulerNodes, nodes: Sequence[str]) -> None:
        """Make its tables where there are none, with the one account slurm, known by the socket."""
        for node in (lab.nodes[name] for name in nodes):
            make_directory(node, _SOCKET.parent, DATA, owner=USER)
            if not node.run(["test", "-d", f"{DATA}/mysql"]).status:
                continue
            # Not mariadb-install-db, which needs most of what belongs to a whole server.
            statements = b"".join([_BEFORE_TABLES, *(node.read(str(_STATEMENTS / name)) for name in _TABLES)])
            call(node, [*_SERVER, "--bootstrap"], stdin=statements, timeout_s=60.0)

    def start(self, lab: SchedulerNodes, nodes: Sequence[str]) -> None:
        """Start it as the user of slurmdbd."""
        for node in (lab.nodes[name] for name in nodes):
            if not runs(node, "mariadbd"):
                words = [f"--socket={_SOCKET}", f"--log-error={LOGS}/mariadbd.log"]
                # It has no way to put itself into the background.
                start_daemon(node, ["sh", "-c", '"$@" &', "sh", *_SERVER, *words])
            # slurmdbd finds out only every 5 s, and slurmctld is next.
            wait_for(partial(self.lacking, lab, node.name))

    def lacking(self, lab: SchedulerNodes, node: str) -> str | None:
        """Its socket is there once it takes connections."""
        here = lab.nodes[node]
        if not runs(here, "mariadbd"):
            return f"mariadbd does not run: its log is {LOGS}/mariadbd.log"
        return None if not here.run(["test", "-S", str(_SOCKET)]).status else "mariadbd has no socket yet"


class SlurmDatabase:
    """slurmdbd, which knows the cluster before slurmctld asks for it."""

    name = "slurmdbd"
    patience_s = 60.0

    def __init__(self, controller: str) -> None:
        self.nodes = [controller]

    def prepare(self, lab: SchedulerNodes, nodes: Sequence[str]) -> None:
        """Write its configuration, for itself alone; slurm.conf is the controller's service's to write."""
        files = slurm_configuration(lab.spec, lab_parameters(lab)).files
        for node in (lab.nodes[name] for name in nodes):
            node.write(
                str(DIRECTORY / DATABASE_CONFIGURATION), files[DATABASE_CONFIGURATION], mode=0o600, owner=USER
            )
            make_directory(node, LOGS, owner=USER)

    def start(self, lab: SchedulerNodes, nodes: Sequence[str]) -> None:
        """Start it; it waits for its database by itself."""
        for node in (lab.nodes[name] for name in nodes):
            if not runs(node, "slurmdbd"):
                start_daemon(node, ["/usr/sbin/slurmdbd"])
            wait_for(partial(_unavailable_reason, node))
            # It fails where the cluster is known.
            node.run(["sacctmgr", "-i", "-Q", "add", "cluster", lab.spec.name], timeout_s=10.0)

    def lacking(self, lab: SchedulerNodes, node: str) -> str | None:
        """It answers."""
        here = lab.nodes[node]
        if not runs(here, "slurmdbd"):
            return f"slurmdbd does not run: its log is {LOGS}/slurmdbd.log"
        return _unavailable_reason(here)


def _unavailable_reason(node: ServiceNode) -> str | None:
    answer = node.run(["sacctmgr", "-n", "-P", "show", "cluster", "format=Cluster"], timeout_s=4.0)
    said = (answer.stderr or answer.stdout).decode(errors="replace").strip()
    return None if answer.status == 0 and "rror" not in said else f"slurmdbd does not answer: {said[-200:]}"
