"""A command of LSF: asks the daemon of the double, and prints what it answers. It is started as a file."""

import json
import os
import socket
import sys
from pathlib import Path


def main() -> int:
    here = Path(sys.argv[0]).absolute()
    question = {
        "command": here.name,
        "arguments": sys.argv[1:],
        "environment": dict(os.environ),
    }
    with socket.socket(socket.AF_UNIX) as asked:
        try:
            asked.connect(str(here.with_name("mbatchd.sock")))
        except OSError:
            sys.stderr.write("LSF is down. Please wait ...\n")
            return 255
        asked.sendall(json.dumps(question).encode() + b"\n")
        answer = b"".join(iter(lambda: asked.recv(1 << 16), b""))
    if not answer:
        sys.stderr.write("Communication time out\n")
        return 255
    status, out, err = json.loads(answer)
    sys.stdout.write(out)
    sys.stderr.write(err)
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
