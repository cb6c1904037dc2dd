"""What machines set themselves up from: user data, a bucket with bundles, and what they may do there.

User data has no secret, and nothing that changes while a grid is up: Terraform makes a machine anew for
other user data. What is made with the machines is in the metadata of each instance, under `gridwright`, for
`boot/begin.py`. The bucket outlives machines, for the logs in it. Policies let nodes and servers read
bundles; each machine puts its report and logs by requests of its own; the key of the scheduler is an object
that nodes read, and the head node makes.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, get_args

from gridwright.providers.boot.bundle import (
    LOGS,
    PREFIX,
    BootReport,
    Bundle,
    Part,
    boot_file,
    here,
    lean,
    multipart,
    pointer,
)
from gridwright.providers.oci.layout import GRID, STORAGE, OciLayout, OciMachine, OciRole, services, tags
from gridwright.providers.oci.resource_manager import Root, block_name, id_of
from gridwright.providers.oci.session import OciCloud
from gridwright.providers.oci.targets import PREFIX as TARGETS
from gridwright.schedulers import scheduler_kind
from gridwright.schedulers.machines import SharedKey
from gridwright.spec.model import GridSpec

LARGEST = 32_000
"""Bytes of all metadata of an instance, encoded user data among them (OCI, instance metadata)."""
KEYS = "keys/"
"""Of objects in the bucket that nodes may read and servers may not."""
_NAME, _MAKES_KEY = "@NAME@", '"@MAKES-KEY@"'
_PROGRAMS = ("fetch.py", "begin.py", "object_store.py", "instance_principal.py", "begin.sh")


def part_of(role: OciRole) -> Part:
    """What machines of a role set themselves up from."""
    return "servers" if role.is_server else "nodes"


def user_data_files(spec: GridSpec, layout: OciLayout) -> dict[str, str]:
    """Templates of Terraform beside the root `grid`, one for machines that differ by name alone."""
    return {file_of(spec, each): _template(spec, each) for each in layout.machines}


def file_of(spec: GridSpec, machine: OciMachine) -> str:
    """The template of a machine."""
    kind = part_of(machine.role) if _key(spec, machine.role) or machine.role.is_server else "machines"
    return f"user-data-{kind}.txt"


def expression(spec: GridSpec, machine: OciMachine) -> str:
    """The user data of a machine, as Terraform makes it."""
    makes = "true" if machine.role is OciRole.HEAD else "false"
    values = f'{{name = "{machine.name}", makes_key = {makes}}}'
    return f'${{base64encode(templatefile("${{path.module}}/{file_of(spec, machine)}", {values}))}}'


def user_data(spec: GridSpec, machine: OciMachine) -> str:
    """The text that a machine gets, as cloud-init reads it."""
    makes = "true" if machine.role is OciRole.HEAD else "false"
    return _text(spec, machine).replace(_NAME, machine.name).replace(_MAKES_KEY, makes)


def key_object(key: SharedKey) -> str:
    """The object that holds a key of the scheduler; the head node makes it, once."""
    return f"{KEYS}{key.name}"


def _template(spec: GridSpec, machine: OciMachine) -> str:
    literal = _text(spec, machine).replace("${", "$${").replace("%{", "%%{")
    return literal.replace(_NAME, "${name}").replace(_MAKES_KEY, "${makes_key}")


def _text(spec: GridSpec, machine: OciMachine) -> str:
    """With marks where machines differ."""
    key = _key(spec, machine.role)
    settings: dict[str, Any] = {
        "schema": 3,
        "name": _NAME,
        "claim": None,
        "group": None,
        "pointer": pointer(part_of(machine.role)),
        "key": None if key is None else _key_settings(key),
    }
    files = [here(f"var/lib/gridwright/{name}", _carried(name)) for name in _PROGRAMS]
    parts = [
        boot_file("oci", "preamble.sh"),
        here("etc/gridwright/machine.json", json.dumps(settings, indent=1)),
    ]
    return multipart("\n".join([*parts, *files, boot_file("oci", "start.sh")]))


def _key_settings(key: SharedKey) -> dict[str, Any]:
    return {
        "name": key.name,
        "variable": key.variable,
        "secret": key_object(key),
        "length": key.length,
        "makes": _MAKES_KEY.strip('"'),
    }


def _key(spec: GridSpec, role: OciRole) -> SharedKey | None:
    """The key that machines of a role share for their scheduler; None where they have no part in it."""
    return None if role.is_server or role is OciRole.MACHINE else scheduler_kind(spec.scheduler).shared_key


@cache
def _carried(name: str) -> str:
    """A program as there is room for it."""
    return lean(boot_file("oci", name)) if name.endswith(".py") else boot_file("oci", name)


REPORTS = "boot/"
"""Of objects that tell how a machine's set-up ended; its name follows."""
REQUESTS = {
    "report": ("ObjectWrite", f"{REPORTS}{{name}}.json"),
    "logs": ("AnyObjectWrite", f"{LOGS}{{name}}/"),
}
"""What a machine writes by a request of its own: kind of access, and an object or the beginning of names.
A policy knows no machine of a dynamic group from another one: conditions compare with constants alone (IAM,
policy syntax, conditions)."""
_EXPIRES = "2099-01-01T00:00:00Z"
"""A request has to end some day; the last one of a machine ends when the machine goes."""
_REQUEST = "oci_objectstorage_preauthrequest"
SECRETS = "security-credentials"
"""Of an instance's metadata. cloud-init writes all metadata to a file that everybody reads, but for values of
such names (cloudinit/sources, sensitive_metadata_keys)."""
MOST_NAMED = 30
"""Machines that a dynamic group names one by one: its rule has to stay short."""
_OBJECT = "oci_objectstorage_object"
PARTS: tuple[Part, ...] = get_args(Part)


def bucket_name(grid: str) -> str:
    """Names of buckets are unique within a tenancy and region."""
    return f"gridwright-{grid}"


def bundle_file(part: Part) -> str:
    """The archive beside the root `grid`."""
    return f"bundle-{part}.tar.gz"


def add_bucket(root: Root, layout: OciLayout) -> None:
    """Add the bucket, with outputs `bucket` and `namespace`."""
    compartment = layout.oci.compartment
    namespace = root.source("oci_objectstorage_namespace", "site", {"compartment_id": compartment})
    root.keep(
        "oci_objectstorage_bucket",
        "site",
        {
            "compartment_id": compartment,
            "namespace": f"${{{namespace}.namespace}}",
            "name": bucket_name(layout.grid),
            "access_type": "NoPublicAccess",
            "kms_key_id": layout.oci.key,
            "freeform_tags": tags(layout, STORAGE),
        },
        why="What machines set themselves up from, the scheduler's key, and logs. Empty it before it goes.",
    )
    root.output("bucket", "${oci_objectstorage_bucket.site.name}", "Bucket of bundles and logs.")
    root.output("namespace", f"${{{namespace}.namespace}}", "Of the bucket: that of the tenancy.")


def add_bundles(root: Root, bundles: Mapping[Part, Bundle]) -> None:
    """Add an object for each archive, under the name of its digest, and one that names it."""
    where = {"bucket": "${var.bucket}", "namespace": "${var.namespace}"}
    for part, made in bundles.items():
        root.resource(
            _OBJECT,
            f"bundle-{part}",
            {
                **where,
                "object": made.key,
                "source": f"${{path.module}}/{bundle_file(part)}",
                "lifecycle": {"create_before_destroy": True},
            },
        )
        root.resource(
            _OBJECT,
            f"pointer-{part}",
            {
                **where,
                "object": pointer(part),
                "content": made.key,
                "depends_on": [f"{_OBJECT}.bundle-{part}"],
            },
            why="What machines look at each minute: another text has them set themselves up anew.",
        )


def bundle_keys(grid: Mapping[str, Any]) -> dict[Part, str]:
    """What the pointers of a rendered root `grid` name, by part."""
    found = grid["resource"][_OBJECT]
    return {part: str(found[f"pointer-{part}"]["content"]) for part in PARTS if f"pointer-{part}" in found}


def add_requests(root: Root, layout: OciLayout, machine: OciMachine) -> None:
    """Add pre-authenticated requests by which a machine writes its own report and logs, and nothing else."""
    for what, (access, objects) in REQUESTS.items():
        root.resource(
            _REQUEST,
            request_name(machine, what),
            {
                "bucket": "${var.bucket}",
                "namespace": "${var.namespace}",
                "name": f"gridwright-{layout.grid}-{machine.name}-{what}",
                "access_type": access,
                "object_name": objects.format(name=machine.name),
                "time_expires": _EXPIRES,
            },
        )


def request_name(machine: OciMachine, what: str) -> str:
    """Of a request, within its root."""
    return f"{what}-{machine.name}"


def instance_metadata(spec: GridSpec) -> str:
    """What Terraform tells each instance of what is made beside it, for boot/begin.py."""
    sources = "var.sources" if services(spec) else "{}"
    return f"${{jsonencode({{bucket = var.bucket, namespace = var.namespace, sources = {sources}}})}}"


def instance_secrets(machine: OciMachine) -> str:
    """The addresses of a machine's requests: who has them can write its report, and nothing else."""
    told = (f"{what} = {_REQUEST}.{request_name(machine, what)}.access_uri" for what in REQUESTS)
    return f"${{jsonencode({{{', '.join(told)}}})}}"


def add_rights(root: Root, layout: OciLayout) -> None:
    """Add dynamic groups and the policy of what machines may do, no more than they need."""
    root.variable("tenancy_ocid", "The tenancy: dynamic groups are made there. Resource Manager fills it in.")
    members = {
        "nodes": [each for each in layout.machines if part_of(each.role) == "nodes"],
        "servers": [each for each in layout.machines if part_of(each.role) == "servers"],
        "head": list(layout.of_role(OciRole.HEAD)),
    }
    statements: list[str] = []
    for name, machines in members.items():
        if machines:
            root.resource(
                "oci_identity_dynamic_group",
                name,
                {
                    "compartment_id": "${var.tenancy_ocid}",
                    "name": f"gridwright-{layout.grid}-{name}",
                    "description": f"Machines of grid {layout.grid}: {name}",
                    "matching_rule": matching_rule(layout, machines),
                    "freeform_tags": tags(layout, GRID),
                },
            )
            has_volumes = any(layout.volumes_of(each.name) for each in machines)
            group = f"${{oci_identity_dynamic_group.{name}.name}}"
            statements += statements_of(layout, name, group, has_volumes=has_volumes)
    root.resource(
        "oci_identity_policy",
        "machines",
        {
            "compartment_id": layout.oci.compartment,
            "name": f"gridwright-{layout.grid}-machines",
            "description": f"What machines of grid {layout.grid} may do",
            "statements": statements,
            "freeform_tags": tags(layout, GRID),
        },
    )


def matching_rule(layout: OciLayout, machines: list[OciMachine]) -> str:
    """These instances; all of the compartment where they are too many to be named."""
    if len(machines) > MOST_NAMED:
        return f"instance.compartment.id = '{layout.oci.compartment}'"
    named = (f"instance.id = '{id_of('oci_core_instance', block_name(each.name))}'" for each in machines)
    return f"ANY {{{', '.join(named)}}}"


def statements_of(layout: OciLayout, name: str, group: str, *, has_volumes: bool) -> list[str]:
    """Statements for one group (OCI, policy reference: Object Storage, Core Services)."""
    compartment = f"in compartment id {layout.oci.compartment}"
    bucket = "target.bucket.name = '${var.bucket}'"
    puts = "any {request.permission = 'OBJECT_CREATE', request.permission = 'OBJECT_OVERWRITE'}"

    def objects(verb: str, *prefixes: str, more: str = "") -> str:
        named = ", ".join(f"target.object.name = '{each}*'" for each in prefixes)
        conditions = f"all {{{bucket}, any {{{named}}}{more}}}"
        return f"Allow dynamic-group {group} to {verb} objects {compartment} where {conditions}"

    if name == "head":
        return [objects("manage", KEYS, more=", request.permission = 'OBJECT_CREATE'")]
    has_targets = name == "servers" and any(each.target is not None for each in layout.volumes)
    noted = [TARGETS] if has_targets else []
    found = [objects("read", PREFIX, *([KEYS] if name == "nodes" else []), *noted)]
    if noted:
        found.append(objects("manage", *noted, more=f", {puts}"))
    if has_volumes:
        reads = ("inspect volume-attachments", "inspect volumes", "inspect instances")
        found += [f"Allow dynamic-group {group} to {each} {compartment}" for each in reads]
    return found


# What machines tell of how they set themselves up: an object of the bucket for each, by its name.

_OBJECTS = ("object_storage", "ObjectStorageClient")


class BootReports:
    """Reports of all machines, as the bucket has them: listed at once, and only those fetched that changed.

    A grid of a thousand machines would else take a thousand requests a round, of which OCI lets few through.
    """

    def __init__(self, cloud: OciCloud, namespace: str, bucket: str) -> None:
        self._cloud = cloud
        self._where = (namespace, bucket)
        self._etags: dict[str, str | None] = {}
        self._reports: dict[str, BootReport] = {}

    def look(self, machines: Collection[str]) -> Mapping[str, BootReport]:
        """The last report of each of these machines that has told something. Raises OciCallError.

        What was read before an error is kept: the next look goes on from there.
        """
        listed = self._listed()
        for gone in set(self._reports) - set(listed):
            del self._reports[gone]
            self._etags.pop(gone, None)
        for name in sorted(set(machines) & set(listed)):
            etag = listed[name]
            if etag is not None and self._etags.get(name) == etag:
                continue
            report = _read(name, object_text(self._cloud, *self._where, f"{REPORTS}{name}.json"))
            self._etags[name] = etag
            if report is None:
                self._reports.pop(name, None)
            else:
                self._reports[name] = report
        return {name: each for name, each in self._reports.items() if name in machines}

    def _listed(self) -> dict[str, str | None]:
        """The tag of each report's content by the name of its machine; a page has a thousand at most."""
        found: dict[str, str | None] = {}
        start: str | None = None
        while True:
            more: dict[str, str] = {} if start is None else {"start": start}
            page = self._cloud.call_or_none(
                *_OBJECTS, "list_objects", *self._where, prefix=REPORTS, fields="name,etag", **more
            )
            for each in () if page is None else page.objects:
                found[each.name.removeprefix(REPORTS).removesuffix(".json")] = each.etag
            start = None if page is None else page.next_start_with
            if not start:
                return found


def _read(machine: str, text: str | None) -> BootReport | None:
    """A report; None where it is gone, or another release has put it there: the machine tells again."""
    try:
        found = json.loads(text or "")
        return BootReport(
            name=machine, instance=str(found["instance"]), state=str(found["state"]),
            bundle=str(found["bundle"]), tries=int(found["tries"]), reason=str(found["reason"]),
            log=str(found["log"]), at=str(found["at"]),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError):
        return None


def object_text(cloud: OciCloud, namespace: str, bucket: str, name: str) -> str | None:
    """An object of the bucket as text; None where there is none. Raises OciCallError."""
    found = cloud.call_or_none(*_OBJECTS, "get_object", namespace, bucket, name)
    if found is None:
        return None
    content = found.content if hasattr(found, "content") else found
    return content.decode("utf-8", "replace") if isinstance(content, bytes) else str(content)
