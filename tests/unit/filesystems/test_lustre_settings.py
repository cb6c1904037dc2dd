"""Parameters of Lustre as rows of the tuning table are held against them."""

from __future__ import annotations

from gridwright.filesystems.lustre_client.settings import values


def test_values_are_put_together_without_the_servers_own_connections() -> None:
    printed = (
        "osc.scratch-OST0000-osc-ffff9d.max_dirty_mb=467\n"
        "osc.scratch-OST0001-osc-ffff9d.max_dirty_mb=256\n"
        "osc.scratch-OST0000-osc-MDT0000.max_dirty_mb=32\n"
    )
    assert values(printed) == "256, 467"
    assert values("") is None
