"""What an update would do to a grid on AWS: fields with their policies, resources, and what is refused."""

from __future__ import annotations

import pytest

from gridwright.providers.aws import changes
from gridwright.providers.aws.changes import deployed_spec, keep, values
from gridwright.spec import GridSpec, parse_spec
from gridwright.spec.fields import Change

SPEC = """\
name: demo
provider: aws
region: us-east-1
aws: {zone: us-east-1a, ssh_from: [203.0.113.0/24]}
nodes: {compute: {instance: m6i.4xlarge, count: 2}}
filesystems:
  shared: {type: fsx-lustre, path: /shared, capacity: 2400 GiB, metadata: none}
libraries: {data: {}, work: {}, util: {}}
scheduler: {type: slurm}
"""


def spec(old: str = "", new: str = "") -> GridSpec:
    assert old in SPEC
    return parse_spec(SPEC.replace(old, new) if old else SPEC)


def changed(old: str, new: str) -> list[changes.FieldChange]:
    return list(changes.field_changes(values(spec()), values(spec(old, new))))


def test_a_spec_is_read_back_from_a_template_as_it_was() -> None:
    template: dict[str, object] = {"Resources": {}}
    keep(template, spec())
    found = deployed_spec(template)
    assert found is not None
    assert values(found) == values(spec())


def test_a_template_of_another_release_has_no_spec_that_can_be_read() -> None:
    assert deployed_spec({"Metadata": {"Gridwright": {"Schema": 1, "Spec": {"nodes": "none"}}}}) is None
    assert deployed_spec({"Metadata": {"Gridwright": {"Schema": 2, "Spec": {}}}}) is None
    assert deployed_spec({}) is None


def test_equal_specs_have_no_changes() -> None:
    assert changed("", "") == []


@pytest.mark.parametrize(
    ("old", "new", "path", "policy"),
    [
        ("count: 2", "count: 3", "nodes.compute.count", Change.ROLLING),
        ("us-east-1a", "us-east-1b", "aws.zone", Change.NEVER),
        ("2400 GiB", "4800 GiB", "filesystems.shared.capacity", Change.LIVE),
        ("metadata: none", "deployment: scratch-2", "filesystems.shared.deployment", Change.REBUILD),
        (
            "[203.0.113.0/24]}",
            "[203.0.113.0/24], owner: ann}",
            "aws.owner",
            Change.LIVE,
        ),
        # Of another kind: nothing of the two can be compared, and the section's policy holds.
        (
            "{type: fsx-lustre, path: /shared, capacity: 2400 GiB, metadata: none}",
            "{type: lustre, path: /shared, source: 10.0.0.1@tcp:/x}",
            "filesystems.shared",
            Change.REBUILD,
        ),
    ],
)
def test_a_change_has_its_path_and_its_policy(old: str, new: str, path: str, policy: Change) -> None:
    found = {".".join(each.path): each.update.change for each in changed(old, new)}
    assert found[path] is policy


def template(**properties: object) -> dict[str, object]:
    return {"Resources": {"Shared": {"Type": "AWS::FSx::FileSystem", "Properties": properties}}}


HELD = {"Shared": "shared"}


@pytest.mark.parametrize(
    ("old", "new", "action"),
    [
        ({"StorageCapacity": 1}, {"StorageCapacity": 2}, "change"),
        ({"SubnetIds": ["a"]}, {"SubnetIds": ["b"]}, "replace"),
        (
            {"LustreConfiguration": {"DeploymentType": "SCRATCH_2"}},
            {"LustreConfiguration": {"DeploymentType": "PERSISTENT_2"}},
            "replace",
        ),
        (
            {"LustreConfiguration": {"DeploymentType": "SCRATCH_2", "PerUnitStorageThroughput": 1}},
            {"LustreConfiguration": {"DeploymentType": "SCRATCH_2", "PerUnitStorageThroughput": 2}},
            "change",
        ),
    ],
)
def test_what_only_a_new_resource_can_have_replaces_it(
    old: dict[str, object], new: dict[str, object], action: str
) -> None:
    proposed = [{"LogicalResourceId": "Shared", "Action": "Modify"}]
    (found,) = changes.resource_changes("s", template(**old), template(**new), proposed, HELD)
    assert found.action == action
    assert found.loses is (action == "replace")


def test_a_replacement_that_only_aws_knows_of_counts() -> None:
    proposed = [{"LogicalResourceId": "Shared", "Action": "Modify", "Replacement": "True"}]
    old, new = template(StorageCapacity=1), template(StorageCapacity=2)
    (found,) = changes.resource_changes("s", old, new, proposed, HELD)
    assert found.action == "replace"


@pytest.mark.parametrize(("replacement", "action"), [("True", "replace"), ("False", "change")])
def test_what_refers_to_a_replaced_resource_is_replaced_where_it_must_be(
    replacement: str, action: str
) -> None:
    reference = {
        "Target": {"Attribute": "Properties", "Name": "SecurityGroupIds", "RequiresRecreation": "Always"},
        "Evaluation": "Dynamic",
        "CausingEntity": "FsxGroup.GroupId",
    }
    proposed: list[dict[str, object]] = [
        {"LogicalResourceId": "FsxGroup", "Action": "Modify", "Replacement": replacement},
        {
            "LogicalResourceId": "Shared",
            "Action": "Modify",
            "Replacement": "Conditional",
            "Details": [reference],
        },
    ]
    (found,) = changes.resource_changes("s", template(), template(), proposed, HELD)
    assert found.action == action


def test_what_leaves_a_template_is_lost_only_where_it_holds_data() -> None:
    empty: dict[str, object] = {"Resources": {}}
    (found,) = changes.resource_changes("s", template(), empty, [], HELD)
    assert (found.action, found.loses) == ("remove", True)
    (found,) = changes.resource_changes("s", template(), empty, [], {})
    assert (found.action, found.loses) == ("remove", False)


def test_a_loss_is_refused_with_the_field_its_policy_and_its_place() -> None:
    wanted = spec("metadata: none", "deployment: scratch-2")
    fields = changes.field_changes(values(spec()), values(wanted))
    lost = changes.ResourceChange("s", "Shared", "AWS::FSx::FileSystem", "replace", (), "shared")
    problems = changes.refusals(wanted, fields, [lost], frozenset())
    (problem,) = [each for each in problems if each.field == "filesystems.shared.deployment"]
    assert "a deployment type cannot be changed" in problem.what
    assert "--replace shared" in str(problem.remedy)
    assert "deployment: scratch-2" in str(problem.source)
    assert not [
        each
        for each in changes.refusals(wanted, fields, [lost], frozenset({"shared"}))
        if "Shared" in each.what
    ]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("2400 GiB", "1200 GiB", "cannot go from 2400 GiB to 1200 GiB: storage can grow, never shrink"),
        ("metadata: none", "metadata: automatic", "made with none"),
    ],
)
def test_what_aws_cannot_do_in_place_is_refused_unless_it_is_named(old: str, new: str, words: str) -> None:
    wanted = spec(old, new)
    fields = changes.field_changes(values(spec()), values(wanted))
    (problem,) = changes.refusals(wanted, fields, [], frozenset())
    assert words in problem.what
    assert changes.refusals(wanted, fields, [], frozenset({"shared"})) == []
    assert changes.lost_filesystems(fields, []) == {"shared"}


def test_what_never_changes_is_refused_though_the_file_system_is_named() -> None:
    wanted = spec("us-east-1a", "us-east-1b")
    fields = changes.field_changes(values(spec()), values(wanted))
    (problem,) = changes.refusals(wanted, fields, [], frozenset({"shared"}))
    assert problem.field == "aws.zone"
    assert "it was us-east-1a and is us-east-1b" in problem.what


def test_the_list_of_what_cannot_change_is_not_empty() -> None:
    assert "SubnetIds" in changes.create_only()["AWS::FSx::FileSystem"]
