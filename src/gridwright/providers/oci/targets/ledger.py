"""What is written down of the volumes of targets: an object of the grid's bucket for each target.

`targets/SERVER/TARGET.json` has the OCID of the volume and its state. The bucket is storage: it stays when
machines go. One machine has a volume at a time, as the attachment is not shareable, so no other one writes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

from gridwright.node_programs.lustre_targets.problems import ClaimError
from gridwright.node_programs.lustre_targets.states import FORMATTED, FORMATTING, NEW
from gridwright.node_programs.scratch.problems import Trouble

PREFIX = "targets/"
"""Of the objects, in the bucket."""
GONE = ("TERMINATING", "TERMINATED")
"""States of a volume that nobody has any more (Core Services API, Volume)."""


@dataclass(frozen=True)
class TargetNote:
    """What is known of the volume of a target."""

    volume: str
    state: str


class TargetLedger(Protocol):
    """Where it is written down, and what the cloud says of volumes; each raises ClaimError where it fails."""

    def note(self, target: str) -> TargetNote | None:
        """What is written down of a target; None where nothing is."""

    def write(self, target: str, note: TargetNote) -> None:
        """Write it down."""

    def volumes(self) -> dict[str, str]:
        """OCIDs of the volumes that this machine has, by their name in /dev."""

    def is_gone(self, volume: str, known: str) -> bool:
        """Whether a volume was terminated, for certain; `known` is one that is there."""


class BucketLedger:
    """See TargetLedger. `cloud` is boot/cloud.py's Cloud, `refused` what it raises."""

    def __init__(self, cloud: Any, server: str, refused: type[Exception]) -> None:  # noqa: ANN401 - shipped alone
        self._cloud, self._server, self._refused = cloud, server, refused
        self._reads = False

    def note(self, target: str) -> TargetNote | None:
        """What is written down of a target."""
        key = self._key(target)
        try:
            bucket = self._cloud.settings["bucket"]
            content = self._cloud.get_object(Bucket=bucket, Key=key)["Body"].read()
        except self._refused as refused:
            if getattr(refused, "status", 0) == 404 and self._may_read():
                return None
            raise ClaimError(_unread(key, str(refused))) from None
        try:
            data = json.loads(content)
            found = TargetNote(str(data["volume"]), str(data["state"]))
        except (ValueError, KeyError, TypeError) as error:
            raise ClaimError(_unread(key, f"it is damaged ({error!r})")) from None
        if found.state not in (FORMATTING, FORMATTED):
            raise ClaimError(_unread(key, f"its state is {found.state!r}"))
        return found

    def _may_read(self) -> bool:
        """Whether an object that is not there is told from one that this machine may not see: by its own."""
        key = f"{PREFIX}{self._server}/here"
        try:
            if not self._reads:
                self._cloud.keep(key, b"")
                self._cloud.get_object(Bucket=self._cloud.settings["bucket"], Key=key)
        except self._refused:
            return False
        self._reads = True
        return True

    def write(self, target: str, note: TargetNote) -> None:
        """Write it down."""
        key = self._key(target)
        text = json.dumps({"schema": 1, "volume": note.volume, "state": note.state}) + "\n"
        try:
            self._cloud.keep(key, text.encode())
        except self._refused as refused:
            what = f"object {key} of the bucket cannot be written: {refused}"
            raise ClaimError(Trouble(what, "see the policy of the servers; nothing was formatted")) from None

    def volumes(self) -> dict[str, str]:
        """OCIDs of attached volumes by device."""
        try:
            listed = self._cloud.attachments()
        except self._refused as refused:
            what = f"the cloud does not tell what is attached: {refused}"
            raise ClaimError(Trouble(what, "see the policy of the servers")) from None
        return {
            str(each["device"]): str(each["volumeId"])
            for each in listed
            if each.get("lifecycleState") == "ATTACHED" and each.get("device") and each.get("volumeId")
        }

    def is_gone(self, volume: str, known: str) -> bool:
        """Whether a volume was terminated: the cloud says so, or knows the other one and not this one.

        Status 404 alone may also mean that this machine is not allowed to ask.
        """
        try:
            return str(self._cloud.volume(volume).get("lifecycleState")) in GONE
        except self._refused as refused:
            if getattr(refused, "status", 0) != 404:
                return False
        try:
            self._cloud.volume(known)
        except self._refused:
            return False
        return True

    def _key(self, target: str) -> str:
        return f"{PREFIX}{self._server}/{target}.json"


def state_of(ledger: TargetLedger, target: str, volume: str) -> str:
    """What is known of a volume. Raises ClaimError where the target was on another one that is there."""
    note = ledger.note(target)
    if note is None:
        return NEW
    if note.volume == volume:
        return note.state
    if note.state == FORMATTED and not ledger.is_gone(note.volume, volume):
        raise ClaimError(
            Trouble(
                f"{target} was on volume {note.volume}, and {volume} is attached in its place",
                f"attach {note.volume} again; or, if {volume} was made from a backup of it, remove the "
                f"object {PREFIX}SERVER/{target}.json from the grid's bucket",
            )
        )
    return NEW


def _unread(key: str, why: str) -> Trouble:
    return Trouble(
        f"object {key} of the bucket says whether the volume was formatted, and is not read: {why}",
        "see the policy of the servers and the bucket; nothing was formatted",
    )
