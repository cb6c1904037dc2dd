"""Starts fetch.py on Oracle Cloud: settings of user data, what Terraform told the instance, Object Storage.

User data cannot name what is made with the machines (the bucket, addresses of file systems), and must not
change when that does: it is in the instance's metadata, under `gridwright`, as JSON. Both together are
boot.json.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import fetch  # type: ignore[import-not-found]
from instance_principal import Refused  # type: ignore[import-not-found]
from object_store import ObjectStore  # type: ignore[import-not-found]

KEY = "gridwright"
"""Of the instance's metadata."""


def settings(machine: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    """What set_up.py reads: of the machine's own user data, and what Terraform told it. Raises NotFetched."""
    missing = [name for name in ("bucket", "namespace") if not told.get(name)]
    if missing:
        lacks = f"metadata {KEY} of this instance lacks {', '.join(missing)}"
        raise fetch.NotFetched(f"{lacks}: apply the grid anew")
    store = {name: told[name] for name in ("bucket", "namespace")}
    return {**machine, **store, "sources": told.get("sources", {})}


def write(path: Path, text: str) -> None:
    """A file of root alone, whole or not at all; one that has this text already is left as it is."""
    if path.exists() and path.read_text() == text:
        return
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def content(store: ObjectStore, bucket: str, key: str) -> bytes:
    """An object; a policy that was just made is not known everywhere at once, so it is asked for again."""
    for attempt in range(fetch.TRIES):
        time.sleep(fetch.PAUSE_S if attempt else 0)
        try:
            return bytes(store.get_object(Bucket=bucket, Key=key)["Body"].read())
        except Refused as refused:
            last = refused
            fetch.say(f"object {key} of bucket {bucket}: {refused}")
    raise fetch.NotFetched(f"object {key} of bucket {bucket}: {last}")


def main() -> int:
    """Learn the settings, then do what fetch.py does; 0 where all is well."""
    try:
        machine = json.loads((fetch.ETC / "machine.json").read_text())
        told = json.loads(ObjectStore({}).principal.told.get(KEY, "{}"))
        write(fetch.ETC / "boot.json", json.dumps(settings(machine, told), indent=1) + "\n")
    except (fetch.NotFetched, Refused, OSError, ValueError) as error:
        fetch.say(f"FAILURE {error}")
        fetch.on_console(str(error))
        return 1
    # What fetch.py asks of S3 it asks of Object Storage here.
    fetch.store, fetch.content = ObjectStore, content
    return int(fetch.main())


if __name__ == "__main__":
    sys.exit(main())
