"""What checkov finds in rendered roots of Terraform, and which checks are left out, each with its reason.

    python -m tests.support.oci_checkov RENDERED...

says what is left, and fails where something is. Checkov reads Terraform's JSON under a framework of its own,
`terraform_json`: under `terraform` it passes such files over and finds nothing. It cannot read the block
`terraform` in them, and says so in a line of its log alone, with status 0: it gets roots without that block.
A root that it must refuse goes along, and a root in which it judged nothing is a failure.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

CHECKOV = Path(sys.executable).parent.parent / "checkov-venv/bin/checkov"
LIMIT_S = 900
PARTS = ("storage", "grid")
_CANARY = "canary"
_GROUP_RULE = "oci_core_network_security_group_security_rule"
REFUSED = {
    "resource": {
        "oci_objectstorage_bucket": {"public": {"name": "b", "access_type": "ObjectRead"}},
        _GROUP_RULE: {
            "ssh": {
                "direction": "INGRESS",
                "source": "0.0.0.0/0",
                "protocol": "6",
                "tcp_options": [{"destination_port_range": [{"min": 22, "max": 22}]}],
            }
        },
    }
}
"""A bucket for everybody, and ssh from everywhere."""
MUST_FIND = {"CKV_OCI_10", "CKV_OCI_22"}
"""The checks that both of it fail."""

Root = Mapping[str, Any]


class LeftOut(NamedTuple):
    """A check of one kind of resource that is left out: where, and why."""

    kind: str
    why: str
    where: Callable[[Mapping[str, Any], Root], bool] = lambda _resource, _root: True


def _no_key(_resource: Mapping[str, Any], root: Root) -> bool:
    """Whether the spec names no key: with one, everything that can have it does."""
    return "kms_key_id" not in json.dumps(root)


_OWN_KEY = "encrypted with Oracle's keys; with the site's where the spec has oci.key"
LEFT_OUT = {
    "CKV_OCI_2": LeftOut(
        "oci_core_volume",
        "a volume is a part of a file system: copies of each by itself, at different times, restore nothing",
    ),
    "CKV_OCI_3": LeftOut("oci_core_volume", _OWN_KEY, _no_key),
    "CKV_OCI_4": LeftOut(
        "oci_core_instance",
        "it looks into launch_options, where OCI calls the field deprecated: the instance has it itself, and "
        "bare metal has no attachment that is virtual",
        lambda each, _root: (
            each.get("is_pv_encryption_in_transit_enabled") is True or each["shape"].startswith("BM.")
        ),
    ),
    "CKV_OCI_7": LeftOut(
        "oci_objectstorage_bucket",
        "nobody waits for events of bundles/, boot/, boot-logs/ and targets/, nor of keys/, whose one object "
        "is made once",
    ),
    "CKV_OCI_8": LeftOut(
        "oci_objectstorage_bucket",
        "what is below bundles/ has the name of its digest, but for pointers, which Terraform has; keys/ "
        "nobody may write over; of boot/, boot-logs/ and targets/ the last version alone counts. Older "
        "versions would keep down from removing the bucket, which deletes objects and no versions",
    ),
    "CKV_OCI_9": LeftOut("oci_objectstorage_bucket", _OWN_KEY, _no_key),
    "CKV_OCI_15": LeftOut("oci_file_storage_file_system", _OWN_KEY, _no_key),
    "CKV_OCI_21": LeftOut(
        _GROUP_RULE,
        "without state, answers need rules of their own that let in all high ports from everywhere",
    ),
    "CKV2_OCI_2": LeftOut(
        _GROUP_RULE,
        "it takes a rule outwards for one inwards: what comes in, the rules of the other side decide",
        lambda each, _root: each["direction"] == "EGRESS",
    ),
}
"""By the number of the check."""


class Verdict(NamedTuple):
    """What checkov says of some roots."""

    problems: tuple[str, ...]
    """What failed and is not left out, and what checkov did not do."""
    left_out: frozenset[str]
    """Numbers of checks that failed and are left out."""


def judge(roots: Mapping[str, Root]) -> Verdict:
    """Have checkov judge roots by name. Raises CalledProcessError, TimeoutExpired where it does not run."""
    with tempfile.TemporaryDirectory() as directory:
        for name, root in {**roots, _CANARY: REFUSED}.items():
            place = Path(directory, name)
            place.mkdir(parents=True)
            kept = {part: value for part, value in root.items() if part != "terraform"}
            (place / "main.tf.json").write_text(json.dumps(kept, indent=1))
        command: list[str | Path] = [
            CHECKOV,
            "--skip-download",
            "--compact",
            "--framework",
            "terraform_json",
            "--soft-fail",
        ]
        done = subprocess.run(
            [*command, "--output", "json", "--directory", directory],
            # Where it runs it finds a configuration: the repository has one, for CloudFormation.
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=True,
        )
    return verdict(roots, json.loads(done.stdout))


def verdict(roots: Mapping[str, Root], told: Mapping[str, Any]) -> Verdict:
    """What checkov's own document means: it has lists of checks that passed, failed and could not be read."""
    results = told["results"]
    failed = [(_root_of(each), each) for each in results["failed_checks"]]
    problems = [f"{each}: checkov cannot read it" for each in results["parsing_errors"]]
    judged = {name for name, _ in failed} | {_root_of(each) for each in results["passed_checks"]}
    problems += [f"{name}: checkov has judged nothing in it" for name in roots if name not in judged]
    found = {each["check_id"] for name, each in failed if name == _CANARY}
    problems += [f"checkov does not find {each} where it is" for each in sorted(MUST_FIND - found)]
    left_out = set()
    for name, each in failed:
        if name == _CANARY:
            continue
        if _is_left_out(each, roots[name]):
            left_out.add(each["check_id"])
        else:
            problems.append(f"{name}: {each['resource']}: {each['check_id']} {each['check_name']}")
    return Verdict(tuple(problems), frozenset(left_out))


def _root_of(check: Mapping[str, Any]) -> str:
    return str(check["file_path"]).strip("/").removesuffix("/main.tf.json")


def _is_left_out(check: Mapping[str, Any], root: Root) -> bool:
    known = LEFT_OUT.get(check["check_id"])
    if known is None:
        return False
    name = str(check["resource"]).partition(".")[2]
    resource = root["resource"].get(known.kind, {}).get(name)
    return resource is not None and known.where(resource, root)


def _rendered(directories: Sequence[str]) -> Iterator[tuple[str, Root]]:
    for directory in directories:
        for part in PARTS:
            file = Path(directory, part, "main.tf.json")
            yield f"{Path(directory).name}/{part}", json.loads(file.read_text())


def main() -> int:
    """Judge what was rendered; status 1 where something is left, or a check is left out for nothing."""
    found = judge(dict(_rendered(sys.argv[1:])))
    unused = [f"{each} is left out, and fails nowhere" for each in LEFT_OUT if each not in found.left_out]
    for each in (*found.problems, *unused):
        sys.stderr.write(f"{each}\n")
    return 1 if found.problems or unused else 0


if __name__ == "__main__":
    sys.exit(main())
