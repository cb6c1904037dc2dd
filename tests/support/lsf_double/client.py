"""A command of LSF: asks the daemon of the double, and prints what it answers. Started by file, without packages."""

import json
import os
import socket
import sys


def main() -> int:
    address = os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), "mbatchd.sock")
    question = {
        "command": os.path.basename(sys.argv[0]),
        "arguments": sys.argv[1:],
        "environment": dict(os.environ),
    }
    with socket.socket(socket.AF_UNIX) as asked:
        try:
            asked.connect(address)
        except OSError:
            print("LSF is down. Please wait ...", file=sys.stderr)
            return 255
        asked.sendall(json.dumps(question).encode() + b"\n")
        answer = b"".join(iter(lambda: asked.recv(1 << 16), b""))
    if not answer:
        print("Communication time out", file=sys.stderr)
        return 255
    status, out, err = json.loads(answer)
    sys.stdout.write(out)
    sys.stderr.write(err)
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
