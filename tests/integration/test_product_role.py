"""The example role that installs a product: its program, moto's S3, and an installer of the test's own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from gridwright.providers.aws.layout import Role
from gridwright.setup.playbook import Hosts, playbook_files
from gridwright.spec import load_spec
from tests.support.aws_faults import Call, Faults
from tests.support.aws_permissions import RenderedGrid, action_name

EXAMPLE = Path(__file__).parents[2] / "examples" / "aws-product.yaml"
PROGRAM = EXAMPLE.parent / "roles/product/files/install_product.py"
BUCKET, BELOW = "example-depots", "product"
INSTANCE = "i-0123456789abcdef0"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
INSTALLER = """#!/bin/sh
[ "$1" = -quiet ] && [ "$2" = -responsefile ] || exit 9
echo "installing with $(cat "$3")"
echo "$(cat "$3") $(cat lib/payload)" >> "$5/installed-by"
mkdir -p "$5/bin" && cp lib/payload "$5/bin/payload"
"""
FAILING = "#!/bin/sh\necho 'licence.txt is missing'\nexit 7\n"


@dataclass
class Depot:
    """The bucket, and the program beside it."""

    place: Path
    faults: Faults
    client: Any

    def put(self, path: str, content: str) -> None:
        self.client.put_object(Bucket=BUCKET, Key=f"{BELOW}/{path}", Body=content.encode())

    @property
    def product(self) -> Path:
        return self.place / "products/thing"

    @property
    def times(self) -> list[str]:
        """What each installation left."""
        return (self.product / "installed-by").read_text().splitlines()

    def install(self, plan: str = "edition=grid", *more: str, depot: str | None = None) -> tuple[int, str]:
        """Exit status, and what it printed."""
        (self.place / "plan").write_text(plan)
        done = subprocess.run(
            [sys.executable, PROGRAM, "--depot", depot or f"s3://{BUCKET}/{BELOW}",
             "--directory", self.product, "--plan", self.place / "plan", *more, "--", "setup.sh",
             "-quiet", "-responsefile", "PLAN", "-target", "DIRECTORY"],
            env={**os.environ, **CREDENTIALS, "AWS_DEFAULT_REGION": "us-east-1",
                 "AWS_ENDPOINT_URL": self.faults.url},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        return done.returncode, (done.stdout + done.stderr).strip()


@pytest.fixture(scope="module")
def before() -> Iterator[Faults]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with Faults.before(f"http://{host}:{port}") as faults:
        yield faults
    server.stop()


@pytest.fixture
def depot(before: Faults, tmp_path: Path) -> Depot:
    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
    client: Any = boto3.client("s3", region_name="us-east-1", endpoint_url=before.url, **keys)
    client.create_bucket(Bucket=BUCKET)
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
        for each in page.get("Contents", ()):
            client.delete_object(Bucket=BUCKET, Key=each["Key"])
    found = Depot(tmp_path, before, client)
    found.put("setup.sh", INSTALLER)
    found.put("lib/payload", "one")
    before.clear()
    return found


def test_it_is_installed_once_and_again_where_depot_or_plan_differ(depot: Depot) -> None:
    assert depot.install("edition=grid", "--check") == (0, "would be installed")
    assert not depot.product.exists()
    assert depot.install() == (0, "installed")
    assert depot.times == ["edition=grid one"]
    assert depot.install() == (0, "as it was")
    assert depot.install("edition=other") == (0, "installed")
    depot.put("lib/payload", "two")
    assert depot.install("edition=other") == (0, "installed")
    assert depot.times == ["edition=grid one", "edition=other one", "edition=other two"]
    assert (depot.product / "bin/payload").read_text() == "two"


def test_what_left_the_depot_leaves_the_copy(depot: Depot) -> None:
    depot.put("lib/extra", "old")
    assert depot.install()[0] == 0
    copy = depot.product.with_name("thing.depot")
    assert (copy / "lib/extra").exists()
    depot.client.delete_object(Bucket=BUCKET, Key=f"{BELOW}/lib/extra")
    assert depot.install() == (0, "installed")
    assert not (copy / "lib/extra").exists()


def test_a_failure_is_told_with_its_last_words_and_tried_again(depot: Depot) -> None:
    assert depot.install()[0] == 0
    depot.put("setup.sh", FAILING)
    for _ in range(2):
        status, said = depot.install()
        assert status == 3
        assert said.splitlines()[0].startswith("setup.sh ended with status 7")
        assert said.splitlines()[-1] == "licence.txt is missing"
    depot.put("setup.sh", INSTALLER)
    # The same depot as the one that is installed: what failed since may have left anything.
    assert depot.install() == (0, "installed")


def test_an_installer_that_hangs_is_ended_with_all_it_started(depot: Depot) -> None:
    depot.put("setup.sh", "#!/bin/sh\necho $$ > lib/pid\nsleep 600 & echo $! >> lib/pid\nwait\n")
    status, said = depot.install("edition=grid", "--timeout", "1")
    assert status == 3
    assert "had not ended after 1 s" in said
    pids = (depot.product.with_name("thing.depot") / "lib/pid").read_text().split()
    assert len(pids) == 2
    ends = [Path(f"/proc/{pid}/stat") for pid in pids]
    assert all(not each.exists() or each.read_text().split()[2] in "ZX" for each in ends)


@pytest.mark.parametrize("key", ["../escaped", "lib/../../escaped", "/escaped"])
def test_no_object_leaves_the_copy(depot: Depot, key: str) -> None:
    depot.put(key, "elsewhere")
    status, said = depot.install()
    assert status == 3
    assert "would leave the copy of the depot" in said
    assert not list(depot.place.rglob("escaped"))


def test_a_depot_that_is_not_there_is_named(depot: Depot) -> None:
    assert depot.install(depot="s3://example-depots/other") == (
        *(3, "there is nothing in s3://example-depots/other/"),
    )
    assert depot.install(depot="/nowhere/depot") == (3, "there is no depot /nowhere/depot")


def test_machines_may_read_the_depot_of_the_spec_and_nothing_else(depot: Depot) -> None:
    grid = RenderedGrid.of(EXAMPLE)
    assert depot.install()[0] == 0
    calls = list(depot.faults.calls)
    assert {action_name(each) for each in calls} == {"s3:ListBucket", "s3:GetObject"}
    for role in (Role.HEAD, Role.LOGIN, Role.COMPUTE):
        assert grid.denied(role, calls, INSTANCE) == []
    for other in (
        Call("s3:GET", f"/{BUCKET}/products-of-others/x", {}),
        Call("s3:GET", "/another-bucket/product/x", {}),
        Call("s3:GET", f"/{BUCKET}?list-type=2&prefix=other/", {}),
        Call("s3:GET", f"/{BUCKET}?list-type=2", {}),
        Call("s3:PUT", f"/{BUCKET}/{BELOW}/setup.sh", {}),
    ):
        assert len(grid.denied(Role.HEAD, [other], INSTANCE)) == 1, other


def test_the_role_is_carried_in_the_playbook_of_the_example() -> None:
    files = playbook_files(load_spec(EXAMPLE), Hosts.named(compute=["compute1"], head=["controller"]))
    assert "roles/product/files/install_product.py" in files
    assert (
        str(files["site.yml"])
        .rstrip()
        .endswith("when: group_names | intersect(['compute', 'head', 'machines']) | length > 0")
    )
