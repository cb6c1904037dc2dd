"""Rules of storage pools refuse what cannot be, and nothing else."""

from __future__ import annotations

from typing import ClassVar

from hypothesis import given
from hypothesis import strategies as st

from gridwright.filesystems.scale.pool_rules import pool_problems, pools_of_provider
from gridwright.spec.provider import ProviderKind, SharedVolumes


def test_pools_that_a_cloud_does_not_make_are_refused_and_not_passed_over() -> None:
    """Else its servers would be made, and the pool's volumes not."""

    class Elsewhere(ProviderKind):
        name = "elsewhere"
        shared_volumes: ClassVar[SharedVolumes | None] = SharedVolumes()

    class Here(Elsewhere):
        shared_volumes = SharedVolumes(has_pools=True)

    fields: dict[str, object] = {"nsd": {}, "pools": {"data": {}}}
    ((path, error),) = pools_of_provider(fields, Elsewhere())
    assert path == ("pools",)
    assert "makes the disks of nsd alone" in error.text
    assert not list(pools_of_provider({"nsd": {}}, Elsewhere()))
    assert not list(pools_of_provider(fields, Here()))


_PLAIN: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 40) | st.sampled_from(("system", "data", "cold", "")),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(("system", "data", "to")), inner)
    ),
    max_leaves=6,
)


@given(
    st.dictionaries(
        st.sampled_from(
            ("nsd", "pairs", "remote", "pools", "default_pool", "migrations", "metadata_only", "replicas")
        ),
        _PLAIN,
    )
)
def test_rules_pass_over_what_has_the_wrong_type(fields: dict[str, object]) -> None:
    """The model tells of that, with its place."""
    list(pool_problems(fields))


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd")), max_size=6))
def test_a_circle_is_refused_and_nothing_else_is(leads: list[tuple[str, str]]) -> None:
    migrations = {source: {"to": target} for source, target in leads}
    pools = {name: {"disks": {"type": "x"}} for name in "abcd"}
    refused = [each for _, each in pool_problems({"pools": pools, "migrations": migrations})]
    graph = {source: each["to"] for source, each in migrations.items()}

    def returns(source: str) -> bool:
        place = source
        for _ in graph:
            place = graph.get(place, "")
            if place == source:
                return True
        return False

    assert bool(refused) == any(map(returns, graph))
