"""README.md of a rendered grid: what the files are, and the commands that bring them into use by hand."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gridwright.schedulers.slurm.configuration import DIRECTORY, LOGS, SPOOL, USER, state_location
from gridwright.schedulers.slurm.kind import KIND
from gridwright.schedulers.slurm.node_facts import fold
from gridwright.schedulers.slurm.site import SlurmSite
from gridwright.spec.model import GridSpec


@dataclass(frozen=True, slots=True)
class Notes:
    """What a provider says there: paragraphs, empty where it has nothing to say."""

    before_steps: str = ""
    """Of the commands that bring Slurm into use by hand."""
    after_playbook: str = ""
    at_end: str = ""


def read_me(spec: GridSpec, site: SlurmSite | None, files: Sequence[str], notes: Notes) -> str:
    """The text, in Markdown. `site` is None where no Slurm is set up."""
    lines = [
        f"# Grid {spec.name}",
        "",
        *_paragraph(
            "Written by `gridwright render` from its grid spec. The same spec gives the same files; a file "
            "that was edited here is not written over, unless `--overwrite` says so."
        ),
    ]
    if site is None:
        kind = spec.scheduler.type
        lines += _paragraph(
            f"Its scheduler, {kind}, has no configuration of its own: nothing is to be set up."
        )
    else:
        lines += [*_contents(files), *_steps(spec, site, notes)]
    lines += [*_playbook(), *_paragraph(notes.after_playbook)]
    if notes.at_end:
        lines += ["", *_paragraph(notes.at_end)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _playbook() -> Iterator[str]:
    """How the nodes are set up by the playbook beside this file."""
    yield from [
        "",
        "## Setting nodes up with Ansible",
        "",
        *_paragraph(
            "`site.yml` sets kernel, limits, disks, file systems and Slurm of all nodes in `inventory.yml`, "
            "as `tuning.yaml` has it, which says why for each setting. It needs ansible-core 2.16 or newer "
            "and ssh to the nodes; a second run changes nothing."
        ),
        "```sh",
        "ansible-playbook site.yml --check --diff   # what differs; changes nothing",
        "ansible-playbook site.yml",
        "```",
        "",
        *_paragraph(
            "`gridwright setup` does the same from the grid spec. What a site chooses goes into a file of "
            "its own, named with `--extra-vars @FILE`: the defaults of the roles say what there is, such as "
            "the repository of the Lustre client and the file that holds the key of munge."
        ),
    ]


def _paragraph(text: str) -> list[str]:
    return [*textwrap.wrap(text, 100), ""] if text else []


_MEANING = {
    "slurm/slurm.conf": "of all nodes",
    "slurm/cgroup.conf": "of all nodes: how jobs are kept to their memory",
    "slurm/slurmdbd.conf": "of the controller only: the database of ended jobs",
}


def _contents(files: Sequence[str]) -> Iterator[str]:
    yield "| file | is |"
    yield "|---|---|"
    yield from (f"| `{name}` | {_MEANING[name]} |" for name in files)
    yield ""
    yield "No secret is among them: the key of munge, by which nodes trust each other, is made below."


def _steps(spec: GridSpec, site: SlurmSite, notes: Notes) -> Iterator[str]:
    yield ""
    yield from _paragraph(notes.before_steps)
    names = fold(node.name for node in site.nodes)
    nodes = shlex.quote(names)  # a shell would take the brackets for a pattern of file names
    controllers = [site.controller]
    if KIND.section(spec).backup_controller and site.backup not in controllers:
        controllers.append(site.backup)
    yield from [
        "## Setting it up by hand",
        "",
        *_paragraph(
            "As root on the controller, on Debian or Ubuntu; names of nodes must resolve on each of them, "
            f"and their clocks must agree. Controller: {' and '.join(controllers)}. "
            f"Nodes that run jobs: {names}."
        ),
        "```sh",
        *_block("One release of Slurm everywhere", *_install(spec, nodes)),
        *_block("The key of munge: a secret, the same on all nodes", *_key(nodes)),
        *_block("Directories and files", *_directories(spec, site, nodes)),
    ]
    if KIND.section(spec).has_database:
        yield from _block("The database of ended jobs", *database_steps(spec))
    yield from [
        *_block(
            "Start, and see",
            "systemctl enable --now slurmctld",
            *(f"ssh {each} systemctl enable --now slurmctld" for each in controllers[1:]),
            f"clush -w {nodes} systemctl enable --now slurmd",
            "sinfo",
            f"srun -N{len(site.nodes)} hostname",
        )[:-1],
        "```",
    ]


def _block(comment: str, *commands: str) -> list[str]:
    return [f"# {comment}", *commands, ""]


def _install(spec: GridSpec, nodes: str) -> Iterator[str]:
    database = " slurmdbd mariadb-server" if KIND.section(spec).has_database else ""
    yield f"apt-get install -y slurmctld slurm-client munge clustershell{database}"
    controller = " slurmctld" if KIND.section(spec).backup_controller else ""
    yield f"clush -w {nodes} apt-get install -y slurmd{controller} slurm-client munge"


def _key(nodes: str) -> Iterator[str]:
    yield (
        "(umask 077; head -c 1024 /dev/urandom > /etc/munge/munge.key.new && "
        "chown munge: /etc/munge/munge.key.new && mv /etc/munge/munge.key.new /etc/munge/munge.key)"
    )
    yield f"clush -w {nodes} --copy /etc/munge/munge.key --dest /etc/munge/munge.key"
    yield f"clush -w {nodes} 'chown munge: /etc/munge/munge.key && chmod 0400 /etc/munge/munge.key'"
    yield "systemctl restart munge"
    yield f"clush -w {nodes} systemctl restart munge"
    yield f"clush -w {nodes} 'munge -n | unmunge | grep STATUS'"


def _directories(spec: GridSpec, site: SlurmSite, nodes: str) -> Iterator[str]:
    yield f"install -d -o {USER} -g {USER} -m 0755 {state_location(spec, site)} {LOGS}"
    yield f"clush -w {nodes} install -d -m 0755 {SPOOL} {LOGS}"
    yield f"cp slurm/slurm.conf slurm/cgroup.conf {DIRECTORY}/"
    yield f"clush -w {nodes} --copy slurm/slurm.conf slurm/cgroup.conf --dest {DIRECTORY}/"


def database_steps(spec: GridSpec) -> Iterator[str]:
    """MariaDB knows the account of slurmdbd by the socket that it connects through: there is no password."""
    yield f"install -o {USER} -g {USER} -m 0600 slurm/slurmdbd.conf {DIRECTORY}/slurmdbd.conf"
    yield "mysql -e 'CREATE DATABASE IF NOT EXISTS slurm_acct_db'"
    yield f"mysql -e 'CREATE USER IF NOT EXISTS {USER}@localhost IDENTIFIED VIA unix_socket'"
    yield f"mysql -e 'GRANT ALL ON slurm_acct_db.* TO {USER}@localhost'"
    yield "systemctl enable --now slurmdbd"
    yield f"sacctmgr -i add cluster {spec.name}"
