"""Machines of a cloud of the tests' own: they tell what real ones tell when they have set themselves up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError
from moto.ec2.models import ec2_backends
from moto.s3.models import s3_backends

REGION, ACCOUNT = "us-east-1", "123456789012"
POLL_S = 0.5


@dataclass
class AwsMachines:
    """Every instance of every grid sets itself up at once with the bundle that is there for it.

    What the program on a machine does is tested elsewhere; this one tells what it tells.
    """

    client: Callable[[str], Any]
    failing: dict[str, str] = field(default_factory=dict)
    """Why machines of a role fail, again and again, by the role."""
    failing_types: dict[str, str] = field(default_factory=dict)
    """The same, by the type of their instance."""
    silent: set[str] = field(default_factory=set)
    """Roles whose machines tell nothing."""
    restarting: dict[str, str] = field(default_factory=dict)
    """Kernel that machines of a role restart for, by the role, for as long as it is there."""
    _told: dict[str, tuple[str, str]] = field(default_factory=dict)

    def look(self) -> None:
        """Tell what is new, once; moto's own records say what there is, at no cost."""
        for bucket in list(s3_backends[ACCOUNT]["aws"].buckets.values()):
            pointers = {part: _pointer(bucket, part) for part in ("nodes", "servers")}
            if not any(pointers.values()):
                continue
            for grid, role, instance, kind in _instances():
                key = pointers["servers" if role in ("mgs", "mds", "oss", "nsd") else "nodes"]
                reason = self.failing.get(role) or self.failing_types.get(kind, "")
                if key and role in self.restarting:
                    reason = f"restarting for kernel {self.restarting[role]}"
                    self._tell(grid, role, instance, key, reason, "running")
                elif key and role not in self.silent and self._told.get(instance) != (key, reason):
                    self._tell(grid, role, instance, key, reason)

    def _tell(
        self, grid: str, role: str, instance: str, key: str, reason: str, state: str | None = None
    ) -> None:
        texts = {
            "slot": f"boot#arn:aws:ec2:us-east-1:123456789012:instance/{instance}",
            "instance": instance,
            "name": f"{role}-{instance}",
            "state": state or ("failed" if reason else "done"),
            "bundle": key,
            "reason": reason,
            "log": f"a line before\n{reason}" if reason else "",
        }
        tries = "3" if texts["state"] == "failed" else "1"
        item = {**{name: {"S": text} for name, text in texts.items()}, "tries": {"N": tries}}
        try:
            self.client("dynamodb").put_item(TableName=f"gridwright-{grid}-claims", Item=item)
        except ClientError:
            return
        self._told[instance] = (key, reason)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Have them look again and again."""
        end = threading.Event()

        def go_on() -> None:
            while not end.wait(POLL_S):
                try:
                    self.look()
                except (ClientError, KeyError, RuntimeError):  # of a grid that is just made or taken away
                    continue

        thread = threading.Thread(target=go_on, daemon=True)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join(10)


def _pointer(bucket: Any, part: str) -> str:
    found = bucket.keys.get(f"bundles/current/{part}")
    return found.value.decode().strip() if found is not None else ""


def _instances() -> Iterator[tuple[str, str, str, str]]:
    for each in ec2_backends[ACCOUNT][REGION].all_instances():
        tags = {tag["key"]: tag["value"] for tag in each.get_tags()}
        if each.state == "running" and "gridwright:grid" in tags:
            yield tags["gridwright:grid"], tags.get("gridwright:role", ""), each.id, each.instance_type
