"""Objects of the grid's bucket, read as this machine: what user data need, which are small.

It needs Python 3.9 and instance_principal.py beside it.
"""

from __future__ import annotations

import io
import sys
import urllib.parse
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from instance_principal import InstancePrincipal  # type: ignore[import-not-found]


class ObjectStore:
    """The bucket, as the policies of the grid let this machine in. `settings` are those of boot.json."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self._principal: InstancePrincipal | None = None

    @property
    def principal(self) -> InstancePrincipal:
        """Who this machine is. Raises Refused where the metadata service does not tell."""
        if self._principal is None:
            self._principal = InstancePrincipal()
        return self._principal

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        """An object as fetch.py reads it. Raises Refused."""
        content, _ = self.principal.request("GET", "objectstorage", self.path(Key, Bucket))
        return {"Body": io.BytesIO(content)}

    def path(self, key: str, bucket: str = "") -> str:
        """Of the URL of an object."""
        parts = (self.settings["namespace"], "b", bucket or self.settings["bucket"], "o")
        return "/n/" + "/".join(urllib.parse.quote(each, safe="") for each in parts) + "/" + _quoted(key)


def _quoted(key: str) -> str:
    """Slashes of an object's name stay: Object Storage takes the rest of the path for it."""
    return urllib.parse.quote(key)
