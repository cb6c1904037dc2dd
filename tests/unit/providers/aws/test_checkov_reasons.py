"""What .checkov.yaml and tests/support/oci_checkov.py say of checks that are left out is so in templates."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import yaml  # type: ignore[import-untyped]
from cfn_flip import to_json  # type: ignore[import-untyped]

from gridwright.providers.aws.files import aws_files
from gridwright.providers.oci.files import oci_files
from gridwright.spec import load_spec, parse_spec
from tests.support.oci_checkov import LEFT_OUT

ROOT = Path(__file__).parents[4]
REASONS = ROOT / ".checkov.yaml"
KEY = "arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555"
CERTIFICATE = "arn:aws:acm:us-east-1:111122223333:certificate/00000000-0000-0000-0000-000000000000"


def reasons() -> dict[str, str]:
    """The comment above each check that is left out."""
    found, lines = {}, []
    for line in REASONS.read_text("utf-8").partition("skip-check:\n")[2].splitlines():
        if line.strip().startswith("#"):
            lines.append(line.strip().removeprefix("#").strip())
        else:
            found[line.strip().removeprefix("- ")] = " ".join(lines)
            lines = []
    return found


def resources(**aws: str) -> dict[str, Any]:
    """Resources of both stacks of a grid with Lustre, a console, and what else the section says."""
    document = yaml.safe_load((ROOT / "examples" / "aws-lustre.yaml").read_text("utf-8"))
    document["aws"] |= {"certificate": CERTIFICATE, **aws}
    document["monitoring"] = {"history": True}
    files = aws_files(parse_spec(json.dumps(document, default=str), base=ROOT / "examples"))[0]
    return {
        name: each
        for template in ("storage.template.yaml", "grid.template.yaml")
        for name, each in json.loads(to_json(str(files[template])))["Resources"].items()
    }


def of_type(made: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    return [each["Properties"] for each in made.values() if each["Type"] == kind]


def statements(made: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for role in of_type(made, "AWS::IAM::Role"):
        for policy in role["Policies"]:
            yield from policy["PolicyDocument"]["Statement"]


def test_each_check_that_is_left_out_has_a_reason() -> None:
    assert list(reasons()) == yaml.safe_load(REASONS.read_text("utf-8"))["skip-check"]
    assert all(len(each) > 100 for each in reasons().values())


def test_what_lies_in_the_bucket_is_named(made: dict[str, Any]) -> None:
    """CKV_AWS_18."""
    places = set()
    for each in statements(made):
        for text in re.findall(r"s3:::\$\{Bucket\}/([a-z-]+/)", json.dumps(each["Resource"])):
            places.add(text)
    assert places == {"bundles/", "boot-logs/"}
    assert all(each in reasons()["CKV_AWS_18"] for each in places)
    for each in of_type(made, "AWS::S3::Bucket"):
        assert "LoggingConfiguration" not in each


def test_actions_that_are_held_to_no_resource_are_named(made: dict[str, Any]) -> None:
    """CKV_AWS_111."""
    free = {
        action
        for each in statements(made)
        for action in (each["Action"] if each["Resource"] == "*" else ())
        if not re.match(r"[a-z0-9]+:(Describe|Get|List)", action)
    }
    assert free == set(re.findall(r"\b[a-z]+:[A-Z]\w+", reasons()["CKV_AWS_111"]))
    for each in statements(made):
        if "cloudwatch:PutMetricData" in each["Action"]:
            assert each["Condition"] == {"StringEquals": {"cloudwatch:namespace": "Gridwright"}}


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return resources()


def test_table_and_secrets_have_the_key_of_the_site(made: dict[str, Any]) -> None:
    """CKV_AWS_119, CKV_AWS_149."""
    (table,) = of_type(made, "AWS::DynamoDB::Table")
    assert table["SSESpecification"] == {"SSEEnabled": True}
    secrets = of_type(made, "AWS::SecretsManager::Secret")
    assert len(secrets) == 2
    assert all("KmsKeyId" not in each for each in secrets)
    own = resources(kms_key=KEY)
    (table,) = of_type(own, "AWS::DynamoDB::Table")
    assert table["SSESpecification"] == {"SSEEnabled": True, "SSEType": "KMS", "KMSMasterKeyId": KEY}
    assert {each["KmsKeyId"] for each in of_type(own, "AWS::SecretsManager::Secret")} == {KEY}
    assert "end of their logs" in reasons()["CKV_AWS_119"]
    assert "token of the console" in reasons()["CKV_AWS_149"]


def test_the_load_balancer_is_that_of_the_console_and_passes_tls_on(made: dict[str, Any]) -> None:
    """CKV_AWS_91."""
    (balancer,) = of_type(made, "AWS::ElasticLoadBalancingV2::LoadBalancer")
    assert (balancer["Type"], "LoadBalancerAttributes" in balancer) == ("network", False)
    (listener,) = of_type(made, "AWS::ElasticLoadBalancingV2::Listener")
    assert listener["Protocol"] == "TLS"
    assert "console" in reasons()["CKV_AWS_91"]


def test_what_lies_in_the_bucket_on_oracle_cloud_is_named() -> None:
    """CKV_OCI_7, CKV_OCI_8; the first directories of all names that a policy or a request knows."""
    files = oci_files(load_spec(ROOT / "examples" / "oci-lustre.yaml"))[0]
    grid = json.loads(cast(str, files["grid/main.tf.json"]))["resource"]
    policy = " ".join(grid["oci_identity_policy"]["machines"]["statements"])
    places = set(re.findall(r"target\.object\.name = '([a-z-]+/)", policy))
    for each in grid["oci_objectstorage_preauthrequest"].values():
        places.add(each["object_name"].partition("/")[0] + "/")
    assert places == {"bundles/", "keys/", "targets/", "boot/", "boot-logs/"}
    for check in ("CKV_OCI_7", "CKV_OCI_8"):
        assert all(each in LEFT_OUT[check].why for each in places), check
    # Only the head node makes the key, and it cannot write over one.
    assert "OBJECT_OVERWRITE" not in next(
        each for each in policy.split("Allow ") if "manage" in each and "keys/" in each
    )
