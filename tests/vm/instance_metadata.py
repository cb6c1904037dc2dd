"""The metadata service of EC2 for one instance, version 2: what cloud-init, boto3 and Gridwright ask."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from socket import socket
from socketserver import ThreadingMixIn
from typing import Any

_CLOUD_INIT = ("Cloud-Init/", "python-requests/")
Tree = dict[str, Any]


class _Server(ThreadingMixIn, HTTPServer):
    daemon_threads = True

    def __init__(self, listening: socket, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("", 0), handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.server_name, self.server_port = "", 0


def serve(listening: socket, handler: type[BaseHTTPRequestHandler]) -> HTTPServer:
    """A server on a socket that listens already."""
    server = _Server(listening, handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


@dataclass
class InstanceMetadata:
    """What the service tells; a token is asked for first, and none is given to who comes through a proxy."""

    instance: str
    account: str
    user_data: str
    macs: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """Of each network interface: number, address and range."""
    asked: list[str] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)

    def tree(self) -> Tree:
        """All of it, as directories."""
        first = next(iter(self.macs))
        address = self.macs[first]["local-ipv4s"]
        name = f"ip-{address.replace('.', '-')}.ec2.internal"
        identity = {"instanceId": self.instance, "accountId": self.account, "region": "us-east-1"}
        keys = {
            "Code": "Success",
            "Type": "AWS-HMAC",
            "AccessKeyId": "ASIATESTING",
            "SecretAccessKey": "testing",
            "Token": "testing",
            "LastUpdated": "2026-01-01T00:00:00Z",
            "Expiration": "2099-01-01T00:00:00Z",
        }
        meta: Tree = {
            "ami-id": "ami-12c6146b",
            "instance-id": self.instance,
            "instance-type": "m5.large",
            "local-hostname": name,
            "hostname": name,
            "local-ipv4": address,
            "mac": first,
            "placement": {"availability-zone": "us-east-1a", "region": "us-east-1"},
            "iam": {"security-credentials": {"compute": json.dumps(keys)}},
            "services": {"partition": "aws", "domain": "amazonaws.com"},
            "network": {"interfaces": {"macs": {mac: dict(each) for mac, each in self.macs.items()}}},
        }
        return {
            "user-data": self.user_data,
            "meta-data": meta,
            "dynamic": {"instance-identity": {"document": json.dumps(identity)}},
        }

    def answer(self, path: str) -> str | None:
        """A file, or what a directory holds; None where there is none. Any version is the latest."""
        found: Any = self.tree()
        for word in path.strip("/").split("/")[1:]:
            if not isinstance(found, dict) or word not in found:
                return None
            found = found[word]
        if isinstance(found, dict):
            return "\n".join(f"{name}/" if isinstance(each, dict) else name for name, each in found.items())
        return str(found)


def serve_all(listening: socket, instances: Mapping[str, InstanceMetadata]) -> HTTPServer:
    """Tell each instance, by its address, what is its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            known = instances[self.client_address[0]]
            refused = self.path != "/latest/api/token" or "X-Forwarded-For" in self.headers
            known.asked.append(f"PUT {self.path}")
            token = secrets.token_hex(8)
            known.tokens.add(token)
            self.reply(None if refused else token, 403)

        def do_GET(self) -> None:
            known = instances[self.client_address[0]]
            known.asked.append(self.path)
            # cloud-init knows Amazon by its BIOS, and asks without a token where there is none.
            if self.headers.get("X-aws-ec2-metadata-token") not in known.tokens and not self.headers.get(
                "User-Agent", ""
            ).startswith(("Cloud-Init/", "python-requests/")):
                self.reply(None, 401)
            else:
                self.reply(known.answer(self.path), 404)

        def reply(self, text: str | None, otherwise: int) -> None:
            content = (text or "").encode()
            self.send_response(otherwise if text is None else 200)
            self.send_header("Content-Length", str(len(content)))
            if self.headers.get("X-aws-ec2-metadata-token-ttl-seconds"):
                self.send_header("X-aws-ec2-metadata-token-ttl-seconds", "300")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    return serve(listening, Handler)
