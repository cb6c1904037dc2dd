"""FSx's data repository tasks over HTTP, strict: moto has none.

What comes in and what goes out is held against botocore's model of the service: names, types, patterns,
words. An export moves files of a directory, which stands for the file system, to a real bucket, so that what
commands say afterwards can be looked at there. What it knows of FSx is in the Amazon FSx API Reference alone.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import botocore.session
from botocore.model import ServiceModel, Shape
from botocore.validate import ParamValidator

from tests.support.http_service import QuietHandler, http_server, running, url_of

FILE_SYSTEM = "fs-0123456789abcdef0"
ASSOCIATION = "dra-0123456789abcdef0"
_ACCOUNT = "123456789012"


@cache
def _model() -> ServiceModel:
    return botocore.session.get_session().get_service_model("fsx")


def wrong_values(shape: Shape, value: Any, where: str = "") -> Iterator[str]:
    """What the model does not allow, beyond what botocore itself looks at: words and patterns."""
    if shape.type_name == "structure":
        members: Mapping[str, Shape] = shape.members
        for name, each in value.items():
            if name not in members:
                yield f"{where}.{name} is unknown"
            else:
                yield from wrong_values(members[name], each, f"{where}.{name}")
    elif shape.type_name == "list":
        for each in value:
            yield from wrong_values(shape.member, each, f"{where}[]")
    elif shape.type_name == "string":
        words = shape.metadata.get("enum")
        pattern = shape.metadata.get("pattern", "")
        if words and value not in words:
            yield f"{where}: {value!r} is none of {words}"
        # Classes of Unicode are no regular expressions of Python.
        if pattern and "\\p{" not in pattern and "(?=" not in pattern and not re.search(pattern, value):
            yield f"{where}: {value!r} does not match {pattern}"


class Refused(Exception):
    """The service says no."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


@dataclass
class FsxService:
    """One file system with one association. Tests turn what is to happen."""

    root: Path
    """What the file system holds."""
    bucket: str
    directory: str
    prefix: str
    objects: Any
    """boto3's client of the store."""
    url: str = ""
    tasks: list[dict[str, Any]] = field(default_factory=list)
    seen: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    failing: dict[str, str] = field(default_factory=dict)
    """Names of files that an export cannot do, and why."""
    busy: int = 0
    """So many tasks are refused, since another one works."""
    throttled: int = 0
    is_held: bool = False
    """Whether tasks stay under way until they are cancelled."""
    state: str = "AVAILABLE"
    tokens: dict[str, dict[str, Any]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, operation: str, given: dict[str, Any]) -> dict[str, Any]:
        """What AWS answers. Raises Refused."""
        model = _model().operation_model(operation)
        report = ParamValidator().validate(given, model.input_shape)
        if report.has_errors():
            raise Refused("BadRequest", report.generate_report())
        for each in wrong_values(model.input_shape, given):
            raise Refused("BadRequest", each)
        self.seen.append((operation, given))
        if self.throttled:
            self.throttled -= 1
            raise Refused("ThrottlingException", "Rate exceeded")
        found: dict[str, Any] = getattr(self, "_" + re.sub("(?<!^)([A-Z])", r"_\1", operation).lower())(given)
        wrong = [*wrong_values(model.output_shape, found)]
        assert wrong == [], wrong
        return found

    def done(self, operation: str) -> list[dict[str, Any]]:
        """The requests of one operation."""
        return [given for name, given in self.seen if name == operation]

    def _describe_data_repository_associations(self, given: dict[str, Any]) -> dict[str, Any]:
        failure: dict[str, Any] = (
            {} if self.state == "AVAILABLE" else {"FailureDetails": {"Message": "The bucket is gone."}}
        )
        return {
            "Associations": [
                {
                    "AssociationId": ASSOCIATION,
                    "FileSystemId": FILE_SYSTEM,
                    "Lifecycle": self.state,
                    "FileSystemPath": self.directory,
                    "DataRepositoryPath": f"s3://{self.bucket}/{self.prefix}",
                    **failure,
                }
            ]
        }

    def _create_data_repository_task(self, given: dict[str, Any]) -> dict[str, Any]:
        if given["FileSystemId"] != FILE_SYSTEM:
            raise Refused("FileSystemNotFound", f"File system {given['FileSystemId']} does not exist.")
        token = given.get("ClientRequestToken", "")
        if token in self.tokens:
            return {"DataRepositoryTask": self.tokens[token]}
        if self.busy:
            self.busy -= 1
            raise Refused("DataRepositoryTaskExecuting", "An existing task is currently executing.")
        place = f"s3://{self.bucket}/{self.prefix}"
        if not given["Report"]["Path"].startswith(f"{place}/"):
            raise Refused("BadRequest", "The report has to be below the linked prefix.")
        identifier = f"task-{len(self.tasks):017x}"
        task: dict[str, Any] = {
            "TaskId": identifier,
            "Lifecycle": "PENDING",
            "Type": given["Type"],
            "CreationTime": time.time(),
            "ResourceARN": f"arn:aws:fsx:us-east-1:{_ACCOUNT}:task/{identifier}",
            "FileSystemId": FILE_SYSTEM,
            "Report": given["Report"],
            **{name: given[name] for name in ("Paths", "Tags") if name in given},
        }
        self.tasks.append(task)
        self.tokens[token] = task
        return {"DataRepositoryTask": task}

    def _describe_data_repository_tasks(self, given: dict[str, Any]) -> dict[str, Any]:
        wanted = given.get("TaskIds")
        chosen = [each for each in self.tasks if wanted is None or each["TaskId"] in wanted]
        for each in chosen:
            self._advance(each)
        return {"DataRepositoryTasks": chosen}

    def _cancel_data_repository_task(self, given: dict[str, Any]) -> dict[str, Any]:
        for each in self.tasks:
            if each["TaskId"] == given["TaskId"]:
                each["Lifecycle"] = "CANCELED"
                return {"Lifecycle": "CANCELING", "TaskId": given["TaskId"]}
        raise Refused("DataRepositoryTaskNotFound", "There is no such task.")

    def _advance(self, task: dict[str, Any]) -> None:
        if task["Lifecycle"] == "PENDING":
            task["Lifecycle"], task["StartTime"] = "EXECUTING", time.time()
        elif task["Lifecycle"] == "EXECUTING" and not self.is_held:
            task["EndTime"] = time.time()
            self._finish(task)

    def _finish(self, task: dict[str, Any]) -> None:
        files: list[Path] = []
        if task["Type"] == "EXPORT_TO_REPOSITORY":
            for path in task.get("Paths", [""]):
                here = self.root / path
                if path.startswith("/") or not here.exists():
                    task["Lifecycle"] = "FAILED"
                    task["FailureDetails"] = {"Message": f"Path {path} is not valid."}
                    return
                files += [here] if here.is_file() else [each for each in here.rglob("*") if each.is_file()]
        base = self.root / self.directory.strip("/")
        failed = {each: self.failing[each.name] for each in files if each.name in self.failing}
        for each in files:
            if each not in failed:
                key = f"{self.prefix}/{each.relative_to(base)}"
                self.objects.put_object(Bucket=self.bucket, Key=key, Body=each.read_bytes())
        if failed:
            lines = "".join(f'"{each}",FAILED,"{why}"\n' for each, why in failed.items())
            place = task["Report"]["Path"].removeprefix(f"s3://{self.bucket}/")
            key = f"{place}/{task['TaskId']}/failures.csv"
            self.objects.put_object(Bucket=self.bucket, Key=key, Body=lines.encode())
        task["Lifecycle"] = "FAILED" if failed else "SUCCEEDED"
        task["Status"] = {
            "TotalCount": len(files), "SucceededCount": len(files) - len(failed), "FailedCount": len(failed),
        }  # fmt: skip


@contextmanager
def fsx_service(root: Path, bucket: str, directory: str, prefix: str, objects: Any) -> Iterator[FsxService]:
    """The service on this machine, on a free port."""
    service = FsxService(root, bucket, directory, prefix, objects)

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            given = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
            operation = self.headers["X-Amz-Target"].rpartition(".")[2]
            status = 200
            try:
                with service.lock:
                    found = service.answer(operation, given)
            except Refused as error:
                status, found = 400, {"__type": error.code, "message": error.message}
            body = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = http_server(Handler)
    service.url = url_of(server)
    with running(server):
        yield service
