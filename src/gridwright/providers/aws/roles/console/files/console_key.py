"""Reads the key pair by which the console reaches nodes: `console_key.py NAME REGION [PATH]`.

It prints the public half, which EC2 tells. With a path it writes the private half there, from Parameter
Store, for the owner of the directory alone, and prints whether that changed it: no key is in a log. All but
boto3 is Python 3.9 alone.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

TRIES = 3


def client(service: str, region: str) -> Any:  # noqa: ANN401 - boto3 has no types of its own
    """A client that gives up after a minute or so."""
    import boto3
    from botocore.config import Config

    config = Config(connect_timeout=10, read_timeout=20, retries={"max_attempts": TRIES, "mode": "standard"})
    return boto3.client(service, region_name=region, config=config)


def pair(name: str, region: str) -> tuple[str, str]:
    """Its ID and its public half."""
    found = client("ec2", region).describe_key_pairs(KeyNames=[name], IncludePublicKey=True)["KeyPairs"][0]
    return str(found["KeyPairId"]), " ".join(str(found["PublicKey"]).split()[:2])


def private(number: str, region: str) -> str:
    """Its private half."""
    place = f"/ec2/keypair/{number}"
    return str(client("ssm", region).get_parameter(Name=place, WithDecryption=True)["Parameter"]["Value"])


def write(path: Path, text: str) -> bool:
    """The file, whole or not at all; whether that changed it. No link of its owner is followed."""
    text = text.rstrip("\n") + "\n"
    if not path.is_symlink() and path.is_file() and path.read_text(encoding="ascii") == text:
        return False
    owner = path.parent.stat()
    new = path.with_name(f".{path.name}")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
    new.replace(path)
    return True


def main() -> None:
    """Read, and print or write it. Ends with why it cannot, without the key."""
    name, region, *place = sys.argv[1:]
    try:
        number, public = pair(name, region)
        if not place:
            print(public)  # noqa: T201 - what the role reads
            return
        path = Path(place[0])
        changed = write(path, private(number, region))
        if write(path.with_name(f"{path.name}.pub"), public) or changed:
            print("changed")  # noqa: T201 - what the role reads
    except Exception as error:
        sys.exit(f"the key pair {name} in {region} cannot be had: {error}")


if __name__ == "__main__":
    main()
