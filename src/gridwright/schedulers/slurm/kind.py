"""The kind `slurm`: its section of the grid spec, and how it is opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gridwright.schedulers.kind import SchedulerKind
from gridwright.schedulers.network import GridPart, NetworkRule, SharedKey
from gridwright.schedulers.slurm.section import SlurmSection, section_of
from gridwright.services.playbook_role import PlaybookRole
from gridwright.services.ports import EPHEMERAL, Ports

if TYPE_CHECKING:
    from gridwright.schedulers.head_node import HeadNode
    from gridwright.schedulers.in_lab import SchedulerNodes
    from gridwright.schedulers.job import NodeState
    from gridwright.schedulers.machines import GridMachines
    from gridwright.schedulers.policies import SchedulerPolicies, SettingComparison
    from gridwright.schedulers.set_up import SchedulerSetup
    from gridwright.schedulers.slurm.scheduler import SlurmScheduler
    from gridwright.schedulers.usage import JobUsage
    from gridwright.services.service import Service
    from gridwright.spec.model import GridSpec

SLURMCTLD = Ports("Slurmctld", 6817, 6817)
SLURMD = Ports("Slurmd", 6818, 6818)
SLURMDBD = Ports("Slurmdbd", 6819, 6819)


class SlurmKind(SchedulerKind[SlurmSection]):
    """Hands jobs to Slurm through its own commands on the head node."""

    spec_model = SlurmSection
    shared_key = SharedKey("munge", length=128, variable="slurm_munge_key_file")
    """Letters and digits of 6 bits; munge wants 32 bytes at least (munged(8))."""

    def open(self, spec: GridSpec, head: HeadNode) -> SlurmScheduler:
        """The Slurm of a grid; see SchedulerKind."""
        from gridwright.schedulers.slurm.scheduler import SlurmScheduler
        from gridwright.schedulers.state_directory import state_directory

        return SlurmScheduler(spec, head, state_directory(spec))

    def nodes(self, spec: GridSpec, head: HeadNode) -> list[NodeState]:
        """As Slurm's own commands tell them: nothing of the state directory is needed."""
        from gridwright.schedulers.slurm.cluster import read_nodes
        from gridwright.schedulers.slurm.tools import Tools

        return [node.state for node in read_nodes(Tools(head)).values()]

    def policies(self, spec: GridSpec, head: HeadNode) -> SchedulerPolicies:
        """Partitions, QOS, accounts and limits; see SchedulerKind."""
        from gridwright.schedulers.slurm.cluster import read_cluster
        from gridwright.schedulers.slurm.policies import read_policies
        from gridwright.schedulers.slurm.tools import Tools

        tools = Tools(head)
        return read_policies(tools, read_cluster(tools))

    def compared_settings(self, spec: GridSpec, head: HeadNode) -> Sequence[SettingComparison]:
        """What `scontrol show config` tells; see SchedulerKind."""
        from gridwright.schedulers.slurm.cluster import read_cluster
        from gridwright.schedulers.slurm.policies import read_policies
        from gridwright.schedulers.slurm.recommended import compared_settings
        from gridwright.schedulers.slurm.tools import Tools

        tools = Tools(head)
        cluster = read_cluster(tools)
        return compared_settings(cluster, read_policies(tools, cluster))

    def usage(self, spec: GridSpec, head: HeadNode, since: float, until: float) -> list[JobUsage]:
        """Out of slurmdbd, or the file of jobcomp/filetxt and our own record; see SchedulerKind."""
        return self.open(spec, head).usage(since, until)

    def setup(
        self, spec: GridSpec, machines: Callable[[], GridMachines], release: str | None = None
    ) -> SchedulerSetup:
        """slurm.conf and its companions; see SchedulerKind."""
        from gridwright.schedulers.slurm.setting_up import slurm_setup

        return slurm_setup(spec, machines(), release)

    def playbook_variables(self, setup: SchedulerSetup | None, *, sets_up: bool) -> Mapping[str, Any]:
        """Variables of the role slurm."""
        return {
            "gridwright_slurm_configure": setup is not None and sets_up,
            "gridwright_slurm": {} if setup is None else dict(setup.variables),
        }

    def playbook_roles(self) -> Sequence[PlaybookRole]:
        """The role slurm: packages, key, configuration and daemons."""
        role = PlaybookRole(
            name="slurm",
            task="Set Slurm up",
            when="gridwright_slurm_configure and gridwright_slurm | length > 0 "
            "and group_names | intersect(['compute', 'head']) | length > 0",
            package="gridwright.schedulers.slurm",
            comment="Servers of file systems run no jobs and start none, and are given no key.",
        )
        return (role,)

    def lab_services(
        self, spec: GridSpec, controller: str, workers: Sequence[str]
    ) -> Sequence[Service[SchedulerNodes]]:
        """Munged everywhere, slurmctld on the controller and its backup, slurmd on the workers.

        With slurmdbd it and MariaDB are on the controller.
        """
        from gridwright.schedulers.slurm.daemons import SlurmController, SlurmNodes
        from gridwright.schedulers.slurm.database import MariaDb, SlurmDatabase
        from gridwright.schedulers.slurm.munge import Munge

        backups = self.standbys(spec, workers)
        has_database = section_of(spec).has_database
        database = (MariaDb(controller), SlurmDatabase(controller)) if has_database else ()
        return (
            Munge([controller, *workers]),
            *database,
            SlurmController([controller, *backups]),
            SlurmNodes(workers),
        )

    def standbys(self, spec: GridSpec, workers: Sequence[str]) -> Sequence[str]:
        """The first node that runs jobs, with `backup_controller`."""
        return workers[:1] if section_of(spec).backup_controller else ()

    def network_rules(self, spec: GridSpec) -> Iterator[NetworkRule]:
        """slurmctld, slurmd and slurmdbd, and the ports that srun waits at."""
        login, head, compute = GridPart.LOGIN, GridPart.HEAD, GridPart.COMPUTE
        for source in (login, compute):
            yield NetworkRule(head, source, SLURMCTLD, "commands and nodes to slurmctld")
            if section_of(spec).has_database:
                yield NetworkRule(head, source, SLURMDBD, "commands to slurmdbd")
        for source in (login, head, compute):
            yield NetworkRule(compute, source, SLURMD, "slurmctld, srun and other nodes to slurmd")
        for target in (login, compute):
            yield NetworkRule(target, head, EPHEMERAL, "slurmctld to a waiting srun")
        yield NetworkRule(compute, compute, EPHEMERAL, "steps of a job to their srun and to each other")


KIND = SlurmKind()
