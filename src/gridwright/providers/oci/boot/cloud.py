"""What a machine on Oracle Cloud asks of its cloud and tells it while it sets itself up.

set_up.py is beside it in the bundle, and knows no cloud; the program of shared volumes uses it as well. It
needs Python 3.9, and object_store.py and instance_principal.py beside it.
"""

from __future__ import annotations

import base64
import json
import secrets
import string
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from instance_principal import (  # type: ignore[import-not-found]
    ENDPOINT,
    PAUSE_S,
    REQUEST_S,
    TRIES,
    Refused,
    metadata,
)
from object_store import ObjectStore  # type: ignore[import-not-found]

REFUSED = Refused
"""What its methods raise, for programs that import this module by another name."""
REPORTS = "boot/"
"""Of keys in the bucket: the last report of each machine, by its name."""
LOGS = "boot-logs/"
"""Of keys in the bucket: logs of tries, by the name of the machine and its OCID."""
SECRETS = "security-credentials"
"""Of the instance's metadata: addresses of its requests. cloud-init shows keys of this name to root alone."""
_PUTS = 4


class Cloud(ObjectStore):  # type: ignore[misc]
    """Oracle Cloud, as the policies of the grid let this machine in. `settings` are those of boot.json."""

    def find(self) -> None:
        """Learn which machine this is. Raises Refused where the metadata service does not tell."""
        _ = self.principal

    @property
    def instance(self) -> str:
        """Its OCID; empty where it is not known."""
        return "" if self._principal is None else str(self._principal.instance)

    def secret(self, what: str, secret: str) -> str:
        """The text of a secret of the vault by its OCID, or of an object of the bucket by its key.

        `what` says which one to who reads the log. The head node makes an object that is not there yet: the
        key of the scheduler. It is asked for again where it is not there: a policy that was just made is not
        known everywhere at once, and the head node may start later. Raises Refused.
        """
        for attempt in range(TRIES):
            time.sleep(PAUSE_S if attempt else 0)
            try:
                return self._vault(secret) if secret.startswith("ocid1.") else self._shared(secret)
            except Refused as refused:
                last = refused
        raise Refused(last.status, f"{what}: {last}")

    def _vault(self, secret: str) -> str:
        path = f"/20190301/secretbundles/{urllib.parse.quote(secret, safe='')}?stage=LATEST"
        answer, _ = self.principal.request("GET", "secrets.vaults", path)
        return base64.b64decode(json.loads(answer)["secretBundleContent"]["content"]).decode()

    def _shared(self, key: str) -> str:
        """The object; made first by the machine that is to make it, and by no other one."""
        known = self.settings.get("key") or {}
        if known.get("makes") and known.get("secret") == key:
            letters = string.ascii_letters + string.digits
            made = "".join(secrets.choice(letters) for _ in range(int(known["length"])))
            try:
                self.keep(key, made.encode(), only_new=True)
            except Refused as refused:
                # 412: it is there already, and stays as it is.
                if refused.status != 412:
                    raise
        return bytes(self.get_object(Bucket=self.settings["bucket"], Key=key)["Body"].read()).decode()

    def tell(self, texts: dict[str, str], tries: int) -> None:
        """Put a report of this boot into the bucket, under the name of this machine. Raises Refused."""
        report = {"instance": self.instance, **texts, "tries": tries}
        content = (json.dumps(report, indent=1) + "\n").encode()
        self._put_own("report", f"{REPORTS}{self.settings['name']}.json", content)

    def keep_log(self, name: str, content: bytes) -> None:
        """Put a log into the bucket, among those of this machine. Raises Refused."""
        self._put_own("logs", f"{LOGS}{self.settings['name']}/{self.instance}/{name}", content)

    def _put_own(self, what: str, key: str, content: bytes) -> None:
        """Put an object by the request that this machine alone was told. Raises Refused.

        It is looked up each time: Terraform may tell it after this machine has begun with a new bundle. The
        address is a secret, and in no message.
        """
        told = json.loads(metadata("instance/")).get("metadata") or {}
        where = str(json.loads(told.get(SECRETS, "{}")).get(what) or "")
        if not where:
            raise Refused(
                0, f"the metadata of this instance have no request for its {what}: apply the grid anew"
            )
        base = ENDPOINT or f"https://{self.principal._host('objectstorage')}"
        url = f"{base}{where.partition('/o/')[0]}/o/{urllib.parse.quote(key)}"
        last = Refused(0, f"object {key} is not taken")
        for attempt in range(_PUTS):
            time.sleep(PAUSE_S / 15 * 2**attempt if attempt else 0)
            request = urllib.request.Request(url, data=content, method="PUT")  # noqa: S310
            try:
                with urllib.request.urlopen(request, timeout=REQUEST_S):  # noqa: S310
                    return
            except urllib.error.HTTPError as error:
                last = Refused(error.code, f"object {key}: status {error.code}")
                if error.code < 500 and error.code != 429:
                    break
            except OSError as error:
                last = Refused(0, f"object {key} is not taken: {getattr(error, 'reason', error)}")
        raise last

    def keep(self, key: str, content: bytes, *, only_new: bool = False) -> None:
        """Put an object into the grid's bucket. Raises Refused, with `only_new` where it is there already."""
        more = {"if-none-match": "*"} if only_new else {}
        self.principal.request("PUT", "objectstorage", self.path(key), content, signs_body=False, more=more)

    def count_failure(self) -> None:
        """Nothing beside the report, which has the number of tries: `gridwright status` reads it."""

    def give_up(self) -> None:
        """Nothing: machines here have fixed names and are in no group, so nobody would replace this one."""

    def volume(self, volume: str) -> dict[str, Any]:
        """A block volume as the Block Volume API has it. Raises Refused."""
        path = f"/20160918/volumes/{urllib.parse.quote(volume, safe='')}"
        answer, _ = self.principal.request("GET", "iaas", path)
        found: dict[str, Any] = json.loads(answer)
        return found

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
