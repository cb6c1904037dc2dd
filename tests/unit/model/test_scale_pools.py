"""What is predicted of a Spectrum Scale with storage pools is what its pool of new files delivers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.errors import GridwrightError
from gridwright.filesystems.resources import Contribution
from gridwright.model.grid import grid_model
from tests.unit.model.test_predict import CATALOG, spec

TIB = 2**40
SYSTEM = {"type": "higher-performance", "count": 2, "size": "1 TiB"}


def contribution(disks: dict[str, Any] = SYSTEM, **fields: Any) -> Contribution:
    nsd = {"instance": "BM.Optimized3.36", "count": 4, "disks": disks}
    described = spec(
        provider="oci",
        region="us-ashburn-1",
        nodes={"compute": {"instance": "VM.DenseIO.E5.Flex(24)", "count": 4}},
        filesystems={"lake": {"type": "scale", "path": "/lake", "nsd": nsd, **fields}},
        libraries={"data": {"filesystem": "lake"}},
    )
    return grid_model(described, CATALOG).groups[0].contributions["lake"]


def volumes(found: Contribution) -> tuple[float, str]:
    (use,) = (each for each in found.routes["write"].uses if each.resource.name == "lake.nsd.volumes")
    return use.resource.bytes_per_s, use.resource.what


pools = st.dictionaries(
    st.sampled_from(("data", "cold", "x")),
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(("lower-cost", "balanced", "higher-performance")),
            "count": st.integers(1, 4),
            "size": st.sampled_from(("1 TiB", "4 TiB")),
        }
    ),
    min_size=1,
)


@given(pools=pools, data=st.data())
def test_the_rate_is_that_of_the_pool_of_new_files_as_if_it_were_the_only_one(
    pools: dict[str, dict[str, Any]], data: st.DataObject
) -> None:
    chosen = data.draw(st.sampled_from(["system", *pools]))
    given_pools = {name: {"disks": each} for name, each in pools.items()}
    found = contribution(pools=given_pools, default_pool=chosen)
    alone = contribution(SYSTEM if chosen == "system" else pools[chosen])
    assert volumes(found)[0] == volumes(alone)[0]
    assert f"in pool {chosen} " in volumes(found)[1]
    # Files of others have no room without a rule that moves them there.
    assert (found.capacity_bytes, found.targets) == (alone.capacity_bytes, alone.targets)
    # All pools are paid for.
    usd = [each.usd_per_hour for each in found.costs]
    assert len(usd) == 2 + len(pools)
    assert None not in usd


def test_files_that_move_on_have_the_room_of_that_pool_too() -> None:
    cold = {"disks": {"type": "lower-cost", "count": 4, "size": "4 TiB"}}
    fields: dict[str, Any] = {"pools": {"cold": cold}, "migrations": {"system": {"to": "cold"}}}
    assert contribution(**fields).capacity_bytes == 4 * (2 + 16) * TIB
    (told,) = (each for each in contribution(**fields).findings if each.name == "scale-pools")
    assert "system 8 TiB (new files), cold 64 TiB (files that move there)" in told.text
    apart = contribution(pools={"cold": cold}, metadata_only=True)
    assert apart.capacity_bytes == 64 * TIB
    assert not any(each.name == "scale-pools" for each in contribution().findings)


def test_a_type_of_volume_that_nobody_sells_is_told_at_its_pool() -> None:
    with pytest.raises(GridwrightError) as caught:
        contribution(pools={"cold": {"disks": {"type": "tape", "size": "1 TiB"}}})
    assert "tape" in str(caught.value)
