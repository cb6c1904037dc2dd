"""Host names of a site's own nodes: folded sets, counted, and each in one group."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.errors import GridwrightError
from gridwright.spec import GridSpec, parse_spec
from gridwright.spec.hosts import MOST_HOSTS, expand_hosts
from gridwright.yamltext.fields import FieldError

SITE = """\
nodes:
  compute: {{{compute}}}
  login: {{hosts: "login1,login2"}}
filesystems: {{disk: {{type: local, path: /data}}}}
libraries: {{data: {{}}}}
scheduler: {{type: {scheduler}}}
"""


def site(compute: str = "hosts: 'node[001-003]'", scheduler: str = "ssh") -> GridSpec:
    return parse_spec(SITE.format(compute=compute, scheduler=scheduler))


def refused(compute: str = "hosts: 'node[001-003]'", scheduler: str = "ssh") -> str:
    with pytest.raises(GridwrightError) as raised:
        site(compute, scheduler)
    return str(raised.value)


def test_a_group_has_the_nodes_that_it_names() -> None:
    spec = site()
    group = spec.nodes["compute"]
    assert group.count == 3
    assert group.node_names("compute") == ["node001", "node002", "node003"]
    assert spec.node_count() == 5
    assert not spec.is_one_machine
    assert spec.group_of("login2") is spec.nodes["login"]
    assert spec.group_of("compute1") is None


def test_without_hosts_nodes_are_called_by_group_and_number() -> None:
    spec = site("count: 2", scheduler="slurm")
    assert spec.nodes["compute"].node_names("compute") == ["compute1", "compute2"]
    assert spec.group_of("compute2") is spec.nodes["compute"]


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        ("node[1-", "is not a set of host names"),
        ("node[1-100000000]", "is more than 10000 nodes"),
        ("node[1-9999],more[1-9999]", "is more than 10000 nodes"),
        ("@all", "is not a set of host names"),
        ("node1 node2", "is not a set of host names"),
        ("$(reboot)", "is not a set of host names"),
        ("-oProxyCommand", "is not a host name"),
        ("node1,node1", "is named twice"),
        ("", "is not a set of host names"),
    ],
)
def test_what_is_no_set_of_hosts(hosts: str, said: str) -> None:
    assert said in refused(f"hosts: '{hosts}'")


def test_a_count_that_disagrees_is_refused() -> None:
    assert "hosts names 3 nodes, and count is 4" in refused("hosts: 'node[1-3]', count: 4")


def test_a_node_is_in_one_group() -> None:
    assert "login1" in refused("hosts: 'node[1-3],login1'")


def test_the_local_scheduler_has_no_hosts() -> None:
    assert "scheduler: {type: slurm}" in refused(scheduler="local")


def test_a_lab_names_its_nodes_itself() -> None:
    with pytest.raises(GridwrightError, match="names its nodes itself"):
        parse_spec("provider: lab\n" + SITE.format(compute="hosts: 'node[1-2]'", scheduler="ssh"))


@settings(deadline=None)
@given(st.text(alphabet="ab01[]-,.@^!&", max_size=40))
def test_any_text_is_expanded_or_refused(text: str) -> None:
    try:
        names = expand_hosts(text)
    except FieldError:
        names = ["refused"]
    assert 1 <= len(names) <= MOST_HOSTS
    assert len(set(names)) == len(names)
