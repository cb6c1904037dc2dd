"""Reads the token of the console from Secrets Manager, for the start of its service.

`console_token.py SECRET REGION PATH` writes it into a file that the owner of its directory alone may read. It
is no word of a command and in no log. All but boto3 is Python 3.9 alone.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

TRIES = 3


def token(secret: str, region: str) -> str:
    """The secret's text."""
    import boto3
    from botocore.config import Config

    config = Config(connect_timeout=10, read_timeout=20, retries={"max_attempts": TRIES, "mode": "standard"})
    service = boto3.client("secretsmanager", region_name=region, config=config)
    return str(service.get_secret_value(SecretId=secret)["SecretString"])


def write(path: Path, text: str) -> None:
    """The file, whole or not at all; nothing that the directory's owner put there is followed."""
    owner = path.parent.stat()
    new = path.with_name(f".{path.name}")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o400)
    with os.fdopen(descriptor, "w") as file:
        file.write(text + "\n")
        os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
    new.replace(path)


def main() -> None:
    """Read and write it. Ends with why it cannot, without the token."""
    secret, region, path = sys.argv[1:]
    try:
        write(Path(path), token(secret, region))
    except Exception as error:
        sys.exit(f"the token of the console, secret {secret} in {region}, cannot be had: {error}")


if __name__ == "__main__":
    main()
