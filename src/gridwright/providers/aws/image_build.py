"""A build of an image for machines of a grid: a template of Packer, and the playbook that it runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gridwright.catalog import load_catalog
from gridwright.errors import GridwrightError, input_error
from gridwright.providers.aws.costs import ROOT_VOLUME, ROOT_VOLUME_SIZE
from gridwright.providers.aws.distribution import distribution_of_nodes
from gridwright.providers.aws.layout import AwsLayout, Role, aws_layout
from gridwright.providers.aws.machine_files import provided
from gridwright.providers.aws.names import DISTRIBUTION_TAG
from gridwright.providers.aws.user_data import boot_file
from gridwright.providers.boot.known_distributions import known_distributions
from gridwright.providers.machines import machines_of_types
from gridwright.providers.no_scheduler import lacks_scheduler
from gridwright.providers.read_me import markdown
from gridwright.providers.rendering import Rendering
from gridwright.schedulers import kind_of
from gridwright.setup.distributions import Distribution
from gridwright.setup.image_playbook import image_playbook_files
from gridwright.setup.playbook import Hosts
from gridwright.spec.locate import problem_at
from gridwright.spec.model import GridSpec

TEMPLATE = "image.json"
PLAYBOOK = "playbook"
_THERE = "/tmp/gridwright-image"  # noqa: S108 - of the machine that is built on, which is removed then
_BUILT_ON = {"x86_64": "m6i.large", "arm64": "m6g.large"}
"""Types that packages are installed on in some minutes, for less than 0.10 USD/h (catalogue, us-east-1)."""
_LEAST = {"iops": 3000, "throughput": 125}
"""Of a gp3 volume (EBS User Guide); Packer asks for them."""
_PROGRAMS = ("begin.sh", "bake.sh", "bake.py", "system_packages.py", "boto3.lock")


def image_build(spec: GridSpec, release: str | None) -> Rendering:
    """All files of it; the same spec gives the same bytes.

    Raises GridwrightError (INPUT) where the spec does not tell which distribution the image has.
    """
    layout = aws_layout(spec)
    found = distribution_of_nodes(layout.aws)
    if found is None:
        what = f"nothing tells what image {layout.aws.images.compute} has"
        remedy = "write distribution beside it, such as rocky-9; gridwright help setup lists them"
        raise GridwrightError(problem_at(spec, ("aws", "images", "compute"), what, remedy))
    threads = layout.aws.hyperthreads
    scheduler = kind_of(spec.scheduler).setup(spec, lambda: machines_of_types(spec, threads=threads), release)
    playbook: dict[str, str | bytes] = {
        **image_playbook_files(spec, scheduler, provided(spec, layout)),
        **{f"boot/{name}": boot_file(name) for name in _PROGRAMS},
        "boot/distributions.json": known_distributions(),
    }
    template = packer_template(spec, layout, found)
    files: dict[str, str | bytes] = {
        TEMPLATE: json.dumps(template, indent=2) + "\n",
        **{f"{PLAYBOOK}/{name}": content for name, content in playbook.items()},
    }
    files["README.md"] = markdown(
        "gridwright.providers.aws",
        "image.md.j2",
        spec=spec,
        distribution=found,
        source=layout.aws.images.compute,
        template=TEMPLATE,
        proxy=layout.aws.proxy,
        slurm_is_missing=lacks_scheduler(spec, found),
        roles=[each.name for each in (*spec.setup.before, *spec.setup.after)],
    )
    return Rendering({name: files[name] for name in sorted(files)}, scheduler.findings, Hosts())


def packer_template(spec: GridSpec, layout: AwsLayout, found: Distribution) -> dict[str, Any]:
    """The template in Packer's JSON, for Packer 1.6 and newer."""
    aws = layout.aws
    architecture = _architecture(spec, layout)
    builder: dict[str, Any] = {
        "type": "amazon-ebs",
        "region": "{{user `region`}}",
        "vpc_id": "{{user `vpc`}}",
        "subnet_id": "{{user `subnet`}}",
        "instance_type": "{{user `instance_type`}}",
        **_source(aws.images.compute, found, architecture),
        "ssh_username": found.user,
        "ssh_clear_authorized_keys": True,
        "ami_name": f"gridwright-{spec.name}-{found.name}-{{{{timestamp}}}}",
        "ami_description": f"{found.title} with the packages of grid {spec.name}",
        "encrypt_boot": True,
        "launch_block_device_mappings": [
            {
                "device_name": found.root_device,
                "volume_type": ROOT_VOLUME,
                "volume_size": int(ROOT_VOLUME_SIZE) // 2**30,
                **_LEAST,
                "delete_on_termination": True,
            }
        ],
        "tags": {
            DISTRIBUTION_TAG: found.name,
            "gridwright:image-of": spec.name,
            "gridwright:source-image": "{{ .SourceAMI }} {{ .SourceAMIName }}",
        },
        "run_tags": {"Name": f"gridwright image of {spec.name}", "gridwright:image-of": spec.name},
    }
    if aws.kms_key is not None:
        builder["kms_key_id"] = aws.kms_key
    variables = {
        "region": spec.region,
        "instance_type": _BUILT_ON[architecture],
        "vpc": "",
        "subnet": "",
        "proxy": aws.proxy or "",
    }
    proxies = " ".join(f"{name}='{{{{user `proxy`}}}}'" for name in ("http_proxy", "https_proxy"))
    return {
        "description": f"Image for machines of grid {spec.name}: see README.md",
        "variables": variables,
        "builders": [builder],
        "provisioners": [
            {"type": "shell", "inline": [f"rm -rf {_THERE}", f"mkdir {_THERE}"]},
            {"type": "file", "source": f"{{{{template_dir}}}}/{PLAYBOOK}/", "destination": f"{_THERE}/"},
            {
                "type": "shell",
                "inline": [f"sudo env {proxies} sh {_THERE}/boot/bake.sh", f"sudo rm -rf {_THERE}"],
            },
        ],
    }


def _source(image: str | None, found: Distribution, architecture: str) -> Mapping[str, Any]:
    """The image that the spec names by its ID, or the newest that the distribution publishes."""
    if image is not None and image.startswith("ami-"):
        return {"source_ami": image}
    published = found.image
    if published is None:
        raise input_error(
            f"Gridwright knows no image of {found.title} on AWS",
            where="aws.images",
            remedy="name one by its ID, ami-..., in aws.images.compute",
        )
    filters = {
        "name": published.names(architecture),
        "architecture": architecture,
        "virtualization-type": "hvm",
        "root-device-type": "ebs",
    }
    return {
        "source_ami_filter": {"filters": filters, "owners": [published.owner], "most_recent": True},
    }


def _architecture(spec: GridSpec, layout: AwsLayout) -> str:
    """Of the nodes that run jobs."""
    catalog = load_catalog(spec.file.parent if spec.file else None)
    return catalog.instance(layout.of_role(Role.COMPUTE)[0].instance, "aws").architecture
