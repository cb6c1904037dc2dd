"""What a machine on Oracle Cloud asks of its cloud and tells it while it sets itself up.

set_up.py is beside it in the bundle, and knows no cloud; begin.py of the user data and the program of shared
volumes use it as well. It needs Python 3.9 and instance_principal.py beside it.
"""

from __future__ import annotations

import base64
import io
import json
import sys
import time
import urllib.parse
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from instance_principal import PAUSE_S, TRIES, InstancePrincipal, Refused  # type: ignore[import-not-found]

REFUSED = Refused
"""What its methods raise, for programs that import this module by another name."""
REPORTS = "boot/"
"""Of keys in the bucket: the last report of each machine, by its name."""


class Cloud:
    """Oracle Cloud, as the policies of the grid let this machine in. `settings` are those of boot.json."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self._principal: InstancePrincipal | None = None

    @property
    def principal(self) -> InstancePrincipal:
        """Who this machine is. Raises Refused where the metadata service does not tell."""
        if self._principal is None:
            self._principal = InstancePrincipal()
        return self._principal

    def find(self) -> None:
        """Learn which machine this is. Raises Refused where the metadata service does not tell."""
        _ = self.principal

    @property
    def instance(self) -> str:
        """Its OCID; empty where it is not known."""
        return "" if self._principal is None else str(self._principal.instance)

    def secret(self, what: str, secret: str) -> str:
        """The text of a secret by its OCID; `what` says which one to who reads the log.

        A policy that was just made is not known everywhere at once, so it is asked for again. Raises Refused.
        """
        path = f"/20190301/secretbundles/{urllib.parse.quote(secret, safe='')}?stage=LATEST"
        for attempt in range(TRIES):
            time.sleep(PAUSE_S if attempt else 0)
            try:
                answer, _ = self.principal.request("GET", "secrets.vaults", path)
                return base64.b64decode(json.loads(answer)["secretBundleContent"]["content"]).decode()
            except Refused as refused:
                last = refused
        raise Refused(last.status, f"{what}: {last}")

    def tell(self, texts: dict[str, str], tries: int) -> None:
        """Put a report of this boot into the bucket, under the name of this machine. Raises Refused."""
        report = {"instance": self.instance, **texts, "tries": tries}
        content = (json.dumps(report, indent=1) + "\n").encode()
        self.keep(f"{REPORTS}{texts['name'] or self.instance}.json", content)

    def keep(self, key: str, content: bytes) -> None:
        """Put an object into the grid's bucket. Raises Refused."""
        self.principal.request(
            "PUT",
            "objectstorage",
            self._path(key),
            content,
            kind="application/octet-stream",
            signs_body=False,
        )

    def count_failure(self) -> None:
        """Nothing beside the report, which has the number of tries: `gridwright status` reads it."""

    def give_up(self) -> None:
        """Nothing: machines here have fixed names and are in no group, so nobody would replace this one."""

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        """An object as fetch.py reads it. Raises Refused."""
        content, _ = self.principal.request("GET", "objectstorage", self._path(Key, Bucket))
        return {"Body": io.BytesIO(content)}

    def attachments(self) -> list[dict[str, Any]]:
        """Volumes that are attached to this machine, as the Compute API lists them, page by page."""
        query = {"compartmentId": self.principal.compartment, "instanceId": self.principal.instance}
        found: list[dict[str, Any]] = []
        page = ""
        while True:
            asked = {**query, **({"page": page} if page else {})}
            path = "/20160918/volumeAttachments?" + urllib.parse.urlencode(asked)
            answer, headers = self.principal.request("GET", "iaas", path)
            found += json.loads(answer)
            page = headers.get("opc-next-page", "")
            if not page:
                return found

    def _path(self, key: str, bucket: str = "") -> str:
        parts = (self.settings["namespace"], "b", bucket or self.settings["bucket"], "o")
        return "/n/" + "/".join(urllib.parse.quote(each, safe="") for each in parts) + "/" + _quoted(key)


def _quoted(key: str) -> str:
    """Slashes of an object's name stay: Object Storage takes the rest of the path for it."""
    return urllib.parse.quote(key)
