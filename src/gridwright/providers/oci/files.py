"""Everything that `render` writes for a grid on OCI: two Terraform roots, and the playbook of machines.

Plain `terraform` or `tofu` deploys the roots; nothing of Gridwright is needed for that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from gridwright.errors import Finding, GridwrightError, Problem
from gridwright.model.grid import GridModel, check_against_catalogue, grid_model
from gridwright.providers.oci.clusters import cluster_parts
from gridwright.providers.oci.layout import OciLayout, oci_layout
from gridwright.providers.oci.machine_files import oci_machine_files
from gridwright.providers.oci.names import GRID, STORAGE
from gridwright.providers.oci.service_subnet import services, tiered_lustres
from gridwright.providers.oci.terraform.boot import bundle_file
from gridwright.providers.oci.terraform.grid import grid_root
from gridwright.providers.oci.terraform.root import LOCK_FILE, lock_text
from gridwright.providers.oci.terraform.storage import storage_root
from gridwright.providers.oci.user_data import user_data_files
from gridwright.providers.read_me import markdown
from gridwright.providers.shared_disks import cluster_documents
from gridwright.setup.playbook import Hosts
from gridwright.spec.locate import problem_at
from gridwright.spec.model import GridSpec
from gridwright.spec.storage import INSTANCE_STORE
from gridwright.units import HOURS_PER_MONTH

ROOT_FILE = "main.tf.json"
COSTS = "costs.json"


def oci_files(
    spec: GridSpec, release: str | None = None
) -> tuple[Mapping[str, str | bytes], Sequence[Finding], Hosts]:
    """All files by their path, what the scheduler's configuration found, and the machines of the inventory.

    The same spec gives the same bytes. Raises GridwrightError (INPUT) with all that cannot be built as it is
    written.
    """
    layout = checked_layout(spec)
    machines = oci_machine_files(spec, layout, release)
    bundles = machines.bundles
    clusters = cluster_documents(spec, cluster_parts(spec, layout))
    storage = storage_root(spec, layout)
    grid = grid_root(spec, layout, storage, bundles)
    # An output that nobody takes would be a value for a variable that is not declared.
    for name in grid.drop_unused_variables():
        storage.outputs.pop(name, None)
    costs = cost_document(spec, grid_model(spec))
    files: dict[str, str | bytes] = {
        **machines.files,
        f"{STORAGE}/{ROOT_FILE}": storage.text(),
        f"{GRID}/{ROOT_FILE}": grid.text(),
        **{f"{part}/{LOCK_FILE}": lock_text() for part in (STORAGE, GRID)},
        **{f"{GRID}/{name}": text for name, text in user_data_files(spec, layout).items()},
        **{f"{GRID}/{bundle_file(part)}": made.content for part, made in bundles.items()},
        **{f"clusters/{name}.json": json.dumps(each, indent=2) + "\n" for name, each in clusters.items()},
        COSTS: json.dumps(costs, indent=2) + "\n",
    }
    files["README.md"] = markdown(
        "gridwright.providers.oci",
        "README.md.j2",
        spec=spec,
        layout=layout,
        costs=costs,
        clusters=clusters,
        has_services=bool(services(spec)),
        has_lustre_service=bool(tiered_lustres(spec)),
    )
    return files, machines.scheduler.findings, machines.hosts


def checked_layout(spec: GridSpec) -> OciLayout:
    """The layout. Raises GridwrightError (INPUT) with all that cannot be built as it is written."""
    problems: list[Problem] = list(_not_made_yet(spec))
    layout = None
    for look in (oci_layout, check_against_catalogue):
        try:
            found = look(spec)
            layout = layout or (found if isinstance(found, OciLayout) else None)
        except GridwrightError as error:
            problems += [each for each in error.problems if each not in problems]
    if problems or layout is None:
        raise GridwrightError(*problems)
    return layout


def _not_made_yet(spec: GridSpec) -> Iterator[Problem]:
    for name, each in spec.filesystems.items():
        if (disks := each.node_disks) is not None and disks.type != INSTANCE_STORE:
            yield problem_at(
                spec,
                ("filesystems", name, "disks", "type"),
                f"this release does not make block volumes of nodes on OCI, and {name} lies on {disks.type}",
                f"write type: {INSTANCE_STORE} with a shape that has NVMe disks, such as "
                "VM.DenseIO.E5.Flex(8), or put its libraries on a shared file system",
            )


def cost_document(spec: GridSpec, model: GridModel) -> dict[str, object]:
    """The bill by line, as `predict` and `plan` have it; None where a price is not known."""
    hourly = model.usd_per_hour
    return {
        "schema": 1,
        "region": spec.region,
        "currency": "USD",
        "lines": [{"what": each.what, "usd_per_hour": each.usd_per_hour} for each in model.costs],
        "usd_per_hour": hourly,
        "usd_per_month": None if hourly is None else hourly * HOURS_PER_MONTH,
    }
