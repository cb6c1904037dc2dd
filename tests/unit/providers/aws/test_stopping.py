"""What a stopped grid on AWS costs and loses; the commands themselves run against moto's server."""

from __future__ import annotations

import pytest

from gridwright.errors import GridwrightError
from gridwright.providers.aws.changes import bill, stopped_bill
from gridwright.providers.aws.costs import total
from gridwright.providers.aws.layout import aws_layout
from gridwright.providers.aws.stopping import AwsStopped, emptied, refuse_lost_targets
from gridwright.spec import parse_spec
from gridwright.spec.model import GridSpec
from tests.support.aws_grid import FSX, LUSTRE

SCRATCH = "  scratch: {type: local, path: /scratch, disks: {type: gp3, count: 2, size: 100 GiB}}\n"
PLAIN = FSX.replace("owner: ann", "replace_nodes: false")


def spec(text: str) -> GridSpec:
    return parse_spec(
        text.replace(
            "libraries: {data: {}, work: {}",
            SCRATCH + "libraries: {data: {filesystem: shared}, work: {filesystem: scratch}",
        ).replace("util: {}", "util: {filesystem: scratch}")
    )


@pytest.mark.parametrize("text", [FSX, LUSTRE, PLAIN], ids=["fsx", "lustre", "plain nodes"])
def test_what_stays_of_a_stopped_grid_is_billed_and_machines_are_not(text: str) -> None:
    grid = spec(text)
    layout = aws_layout(grid)
    running, stopped = bill(grid, layout, running=True), stopped_bill(grid, layout)
    lines = {each.what: each.usd_per_hour for each in stopped}
    whole = {each.what: each.usd_per_hour for each in running}
    roots = next(each for each in lines if each.startswith("root volumes"))
    kept = [each for each in layout.machines if not each.replaced]
    assert roots.startswith(f"root volumes of {len(kept)} machines")
    for what, price in lines.items():
        if what != roots:
            assert whole[what] == price, "no line costs more or less than while it runs"
    assert "NAT gateway" in lines
    machines = {"2 nodes m6i.4xlarge", "2 OSS c5n.9xlarge", "login node m6i.large", "head node m6i.large"}
    assert machines & set(whole)
    assert not machines & set(lines)
    has_scratch = any("scratch" in what or "100 GiB at each node" in what for what in lines)
    assert has_scratch == (text == PLAIN), "volumes of nodes go with nodes that are replaced"
    less, more = total(stopped), total(running)
    assert less is not None
    assert more is not None
    assert 0 < less < more
    said = AwsStopped("demo", "us-east-1", True, 4, running, stopped, ("scratch",), "grid.yaml")
    assert said.saved_usd_per_hour == pytest.approx(more - less)
    assert "gridwright start grid.yaml" in said.text()


def test_what_is_empty_after_the_next_start_is_named() -> None:
    assert list(emptied(spec(FSX), aws_layout(spec(FSX)))) == ["scratch"]
    assert list(emptied(spec(PLAIN), aws_layout(spec(PLAIN)))) == [], "their volumes stay with them"


def test_servers_whose_own_disks_hold_the_data_are_not_stopped() -> None:
    refuse_lost_targets(spec(LUSTRE))
    own = LUSTRE.replace(
        "{instance: c5n.9xlarge, count: 2, disks: {type: gp3, count: 2, size: 500 GiB}}",
        "{instance: i3en.6xlarge, count: 2, disks: {type: instance-store}}",
    )
    assert own != LUSTRE
    with pytest.raises(GridwrightError, match="the data of shared are on disks inside its servers"):
        refuse_lost_targets(parse_spec(own))
