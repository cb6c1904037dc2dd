"""What machines tell of how they set themselves up: an object of the bucket for each, by its name."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
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


class BootReports:
    """Reports of all machines, as the bucket has them: listed at once, and only those fetched that changed.

    A grid of a thousand machines would else take a thousand requests a round, of which OCI lets few through.
    """

    def __init__(self, cloud: OciCloud, namespace: str, bucket: str) -> None:
        self._cloud = cloud
        self._where = (namespace, bucket)
        self._etags: dict[str, str | None] = {}
        self._reports: dict[str, OciBootReport] = {}

    def look(self, machines: Collection[str]) -> Mapping[str, OciBootReport]:
        """The last report of each of these machines that has told something. Raises OciCallError.

        What was read before an error is kept: the next look goes on from there.
        """
        listed = self._listed()
        for gone in set(self._reports) - set(listed):
            del self._reports[gone]
            self._etags.pop(gone, None)
        for name in sorted(set(machines) & set(listed)):
            etag = listed[name]
            if etag is not None and self._etags.get(name) == etag:
                continue
            report = _read(name, object_text(self._cloud, *self._where, f"{REPORTS}{name}.json"))
            self._etags[name] = etag
            if report is None:
                self._reports.pop(name, None)
            else:
                self._reports[name] = report
        return {name: each for name, each in self._reports.items() if name in machines}

    def _listed(self) -> dict[str, str | None]:
        """The tag of each report's content by the name of its machine; a page has a thousand at most."""
        found: dict[str, str | None] = {}
        start: str | None = None
        while True:
            more: dict[str, str] = {} if start is None else {"start": start}
            page = self._cloud.call_or_none(
                *_OBJECTS, "list_objects", *self._where, prefix=REPORTS, fields="name,etag", **more
            )
            for each in () if page is None else page.objects:
                found[each.name.removeprefix(REPORTS).removesuffix(".json")] = each.etag
            start = None if page is None else page.next_start_with
            if not start:
                return found


def _read(machine: str, text: str | None) -> OciBootReport | None:
    """A report; None where it is gone, or another release has put it there: the machine tells again."""
    try:
        found = json.loads(text or "")
        return OciBootReport(
            name=machine, instance=str(found["instance"]), state=str(found["state"]),
            bundle=str(found["bundle"]), tries=int(found["tries"]), reason=str(found["reason"]),
            log=str(found["log"]), at=str(found["at"]),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError):
        return None


def object_text(cloud: OciCloud, namespace: str, bucket: str, name: str) -> str | None:
    """An object of the bucket as text; None where there is none. Raises OciCallError."""
    found = cloud.call_or_none(*_OBJECTS, "get_object", namespace, bucket, name)
    if found is None:
        return None
    content = found.content if hasattr(found, "content") else found
    return content.decode("utf-8", "replace") if isinstance(content, bytes) else str(content)
