"""The head node of a grid on a cloud of the tests' own: the real program, and a small Slurm in a file.

Machines claim what is free, as claims do it, which are tested elsewhere.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError
from botocore.parsers import ResponseParserError

from gridwright.providers.aws.layout import aws_layout
from gridwright.providers.aws.machine_files import ROLL, roll_file
from gridwright.spec import parse_spec
from tests.support.aws_cloud import ENVIRONMENT, AwsCloud

TOOL = """#!{python}
import json, os, pathlib, sys
file = pathlib.Path(os.environ["SLURM_OF_THE_TEST"])
nodes = json.loads(file.read_text())
name, words = os.path.basename(sys.argv[0]), sys.argv[1:]
if os.environ.get("SLURM_IS_DOWN"):
    sys.exit("Unable to contact slurm controller")
if name == "systemctl" or name == "lctl":
    print((file.parent / name).read_text() if (file.parent / name).exists() else "")
elif name == "squeue":
    for node, each in nodes.items():
        for job in each["jobs"]:
            print(f"{{job}}|RUNNING|{{node}}|1:00:00")
elif words[:3] == ["-o", "show", "nodes"]:
    for node, each in nodes.items():
        state = ("ALLOCATED" if each["jobs"] else "IDLE") + ("+DRAIN" if each["reason"] else "")
        reason = f" Reason={{each['reason']}} [root@2026-11-24T23:00:00]" if each["reason"] else ""
        print(f"NodeName={{node}} Arch=x86_64 State={{state}} ThreadsPerCore=1{{reason}}")
elif words[0] == "update":
    given = dict(word.partition("=")[::2] for word in words[1:])
    for node in given["NodeName"].split(","):
        nodes[node]["reason"] = given["Reason"] if given["State"] == "DRAIN" else ""
        nodes[node]["drains"] = nodes[node].get("drains", 0) + (given["State"] == "DRAIN")
    file.write_text(json.dumps(nodes))
else:
    sys.exit(f"{{name}} {{words}}")
"""


@dataclass
class Head:
    """The head node."""

    cloud: AwsCloud
    spec: str
    place: Path
    url: str
    """Where it reaches AWS."""
    roles: Mapping[str, list[str]] = field(default_factory=dict)
    """Names of machines of groups, by role."""

    def __post_init__(self) -> None:
        spec = parse_spec(self.spec)
        layout = aws_layout(spec)
        names: dict[str, list[str]] = {}
        for each in layout.machines:
            if each.replaced:
                names.setdefault(str(each.role), []).append(each.name)
        self.roles = names
        self.grid = spec.name
        (self.place / "bin").mkdir(parents=True)
        for tool in ("scontrol", "squeue", "scancel", "systemctl", "lctl"):
            path = self.place / "bin" / tool
            path.write_text(TOOL.format(python=sys.executable))
            path.chmod(0o755)
        self.slurm = self.place / "slurm.json"
        self.slurm.write_text(
            json.dumps({name: {"jobs": [], "reason": ""} for name in names.get("compute", ())})
        )
        (self.place / "roll.pyz").write_bytes(ROLL.archive())
        (self.place / "slurm").mkdir()
        (self.place / "roll.json").write_text(roll_file(spec, layout, str(self.place / "slurm")))

    def node(self, name: str) -> dict[str, Any]:
        """What Slurm has of a node."""
        found: dict[str, Any] = json.loads(self.slurm.read_text())[name]
        return found

    def jobs(self, name: str, *jobs: str) -> None:
        """Have jobs run on a node."""
        nodes = json.loads(self.slurm.read_text())
        nodes[name]["jobs"] = list(jobs)
        self.slurm.write_text(json.dumps(nodes))

    def owners(self) -> dict[str, str]:
        """Instance of each machine, by the table of claims."""
        rows = self.cloud.client("dynamodb").scan(TableName=f"gridwright-{self.grid}-claims")["Items"]
        return {each["slot"]["S"]: each["owner"]["S"] for each in rows if "owner" in each}

    def claim(self) -> None:
        """Have instances that are no machine yet take places whose owner is gone."""
        there = self._instances()
        owners = self.owners()
        for role, names in self.roles.items():
            running = [each for each in there if there[each] == role]
            new = [each for each in running if each not in owners.values()]
            free = [name for name in names if owners.get(name) not in running]
            for name, owner in zip(free, new, strict=False):
                item = {"slot": {"S": name}, "owner": {"S": owner}, "token": {"N": "1"}}
                self.cloud.client("dynamodb").put_item(TableName=f"gridwright-{self.grid}-claims", Item=item)

    def _instances(self) -> dict[str, str]:
        running = set(self.cloud.running(self.grid))
        found = self.cloud.client("ec2").describe_instances(InstanceIds=sorted(running))["Reservations"]
        return {
            each["InstanceId"]: next(t["Value"] for t in each["Tags"] if t["Key"] == "gridwright:role")
            for reservation in found
            for each in reservation["Instances"]
        }

    def look(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """What the timer starts each minute."""
        command = [sys.executable, str(self.place / "roll.pyz"), "--config", str(self.place / "roll.json")]
        given = {
            **ENVIRONMENT,
            "AWS_ENDPOINT_URL": self.url,
            "PATH": f"{self.place / 'bin'}:{os.environ['PATH']}",
            "SLURM_OF_THE_TEST": str(self.slurm),
            "GRIDWRIGHT_ROOT": str(self.place),
            **environment,
        }
        return subprocess.run(
            [*command, *arguments], env=given, capture_output=True, text=True, timeout=60, check=False
        )

    def minute(self, **environment: str) -> str:
        """Machines come up and tell, and the program looks once; what it printed."""
        self.claim()
        self.cloud.machines.look()
        done = self.look(**environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextmanager
    def running(self) -> Iterator[None]:
        """Have minutes pass, one after the other."""
        end = threading.Event()

        def go_on() -> None:
            while not end.wait(0.2):
                # moto answers with an error now and then while a stack changes.
                with contextlib.suppress(ClientError, ResponseParserError, AssertionError):
                    self.minute()

        thread = threading.Thread(target=go_on, daemon=True)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join(60)
