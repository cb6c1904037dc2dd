"""Grids on a cloud of the tests' own, and the commands on them."""

from __future__ import annotations

from pathlib import Path

from tests.support.aws_cloud import AwsCloud
from tests.support.command import Command, Ended, Running

FSX = """\
name: demo
provider: aws
region: us-east-1
aws: {zone: us-east-1a, ssh_from: [203.0.113.0/24], owner: ann}
nodes: {compute: {instance: m6i.4xlarge, count: 2}}
filesystems:
  shared: {type: fsx-lustre, path: /shared, deployment: persistent-2, capacity: 2400 GiB}
libraries: {data: {}, work: {}, util: {}}
scheduler: {type: slurm}
"""
LUSTRE = """\
name: demo
provider: aws
region: us-east-1
aws: {zone: us-east-1a, ssh_from: [203.0.113.0/24], images: {storage: ami-0123456789abcdef0}}
nodes: {compute: {instance: m6i.4xlarge, count: 2}}
filesystems:
  shared:
    type: lustre
    path: /shared
    oss: {instance: c5n.9xlarge, count: 2, disks: {type: gp3, count: 2, size: 500 GiB}}
    mds: {instance: m5.4xlarge, disks: {type: gp3, size: 100 GiB}}
libraries: {data: {}, work: {}, util: {}}
scheduler: {type: slurm}
"""
SCALE = """\
name: demo
provider: aws
region: us-east-1
aws: {zone: us-east-1a, ssh_from: [203.0.113.0/24], replace_nodes: false}
nodes: {compute: {instance: m6i.4xlarge, count: 2}}
filesystems:
  lake:
    type: scale
    path: /gpfs/lake
    nsd: {instance: m6in.8xlarge, count: 2, disks: {type: io2, count: 2, size: 500 GiB, iops: 4000}}
libraries: {data: {}, work: {}, util: {}}
scheduler: {type: slurm}
"""
SITE_VPC = """{id: vpc-0123456789abcdef0, networks: [10.8.0.0/16], reserve: true,
  login: {subnet: subnet-0123456789abcdef0, addresses: 10.8.4.64/28},
  compute: {subnet: subnet-0123456789abcdef1, addresses: 10.8.16.64/26},
  storage: {subnet: subnet-0123456789abcdef2, addresses: 10.8.8.64/28},
  dns: {id: Z0123456789ABC, name: grid.example.com}}"""
"""A VPC of the site's, as a spec names it."""
STACKS = {"gridwright-demo", "gridwright-demo-storage"}


class Grid:
    """A spec, and the commands on it."""

    def __init__(self, command: Command, cloud: AwsCloud, spec: Path) -> None:
        self._command, self._cloud, self.spec = command, cloud, spec

    def __call__(self, verb: str, *arguments: str) -> Ended:
        return self._command(verb, self.spec, *arguments, environment=self._cloud.environment)

    def start(self, verb: str, *arguments: str) -> Running:
        return self._command.start(verb, self.spec, *arguments, environment=self._cloud.environment)

    def done(self, verb: str, *arguments: str) -> Ended:
        ended = self(verb, *arguments)
        assert ended.status == 0, ended.err
        return ended

    def edit(self, old: str, new: str) -> None:
        text = self.spec.read_text()
        assert old in text
        self.spec.write_text(text.replace(old, new))


def grid_of(text: str, command: Command, cloud: AwsCloud, directory: Path) -> Grid:
    spec = directory / "grid.yaml"
    spec.write_text(text)
    return Grid(command, cloud, spec)
