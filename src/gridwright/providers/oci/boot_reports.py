"""What machines tell of how they set themselves up: an object of the bucket for each, by its name."""

from __future__ import annotations

import json
from dataclasses import dataclass

from gridwright.providers.oci.session import OciCloud
from gridwright.providers.oci.terraform.boot import REPORTS

_OBJECTS = ("object_storage", "ObjectStorageClient")
RESTARTING = "restarting"
"""How the reason begins that a machine gives while it restarts (boot/set_up.py)."""


@dataclass(frozen=True, slots=True)
class OciBootReport:
    """How a machine got on with a bundle; boot/set_up.py of its bundle writes it."""

    name: str
    instance: str
    """Its OCID."""
    state: str
    """running, done or failed."""
    bundle: str
    tries: int
    reason: str
    """Why it failed, or what it is at."""
    log: str
    """The last lines of the log of a try that failed."""
    at: str
    """When it was told, as 2026-11-23T09:15:00Z."""

    def is_of(self, instance: str | None, bundle: str | None) -> bool:
        """Whether it is of this instance and this bundle: an earlier machine of the name may have told it."""
        return self.instance == instance and self.bundle == bundle

    @property
    def text(self) -> str:
        """In a few words."""
        tries = f", try {self.tries}" if self.tries > 1 or self.state == "failed" else ""
        return self.reason if self.state == "running" and self.reason else f"{self.state}{tries}"


def boot_report(cloud: OciCloud, namespace: str, bucket: str, machine: str) -> OciBootReport | None:
    """The last report of a machine; None where it has told nothing. Raises OciCallError."""
    text = object_text(cloud, namespace, bucket, f"{REPORTS}{machine}.json")
    try:
        found = json.loads(text or "")
        return OciBootReport(
            name=machine, instance=str(found["instance"]), state=str(found["state"]),
            bundle=str(found["bundle"]), tries=int(found["tries"]), reason=str(found["reason"]),
            log=str(found["log"]), at=str(found["at"]),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError):
        # One that another release has put there: the machine tells again when it sets itself up.
        return None


def object_text(cloud: OciCloud, namespace: str, bucket: str, name: str) -> str | None:
    """An object of the bucket as text; None where there is none. Raises OciCallError."""
    found = cloud.found(*_OBJECTS, "get_object", namespace, bucket, name)
    if found is None:
        return None
    content = found.content if hasattr(found, "content") else found
    return content.decode("utf-8", "replace") if isinstance(content, bytes) else str(content)
