"""What becomes of checkov's own document: nothing that it did not read or did not find is taken for good."""

from __future__ import annotations

import copy
from typing import Any

from tests.support.oci_checkov import LEFT_OUT, MUST_FIND, verdict

RULE = "oci_core_network_security_group_security_rule"
ROOT = {
    "resource": {
        "oci_core_volume": {"v1": {"size_in_gbs": "50"}},
        "oci_core_instance": {"n1": {"shape": "VM.Standard.E5.Flex"}, "n2": {"shape": "BM.Optimized3.36"}},
        RULE: {"out": {"direction": "EGRESS"}, "in": {"direction": "INGRESS"}},
    }
}


def told(check: str, name: str, root: str = "one/storage") -> dict[str, str]:
    return {
        "check_id": check,
        "check_name": f"what {check} says",
        "resource": f"resource.{name}",
        "file_path": f"/{root}/main.tf.json",
    }


def document(*failed: dict[str, str]) -> dict[str, Any]:
    canary = [told(each, "any", "canary") for each in sorted(MUST_FIND)]
    return {
        "results": {
            "failed_checks": [*failed, *canary],
            "passed_checks": [told("CKV_OCI_5", "n1")],
            "parsing_errors": [],
        }
    }


def problems(*failed: dict[str, str], root: dict[str, Any] = ROOT) -> list[str]:
    return list(verdict({"one/storage": root}, document(*failed)).problems)


def test_what_passes_has_no_problem_and_what_is_left_out_is_named() -> None:
    found = verdict({"one/storage": ROOT}, document(told("CKV_OCI_2", "v1"), told("CKV_OCI_3", "v1")))
    assert found.problems == ()
    assert found.left_out == {"CKV_OCI_2", "CKV_OCI_3"}


def test_what_fails_is_told_with_its_place() -> None:
    assert problems(told("CKV_OCI_5", "n1")) == ["one/storage: resource.n1: CKV_OCI_5 what CKV_OCI_5 says"]


def test_a_root_that_was_not_read_does_not_pass() -> None:
    empty = document()
    empty["results"]["passed_checks"] = []
    assert verdict({"one/storage": ROOT}, empty).problems == (
        "one/storage: checkov has judged nothing in it",
    )
    empty["results"]["parsing_errors"] = ["/tmp/one/storage/main.tf.json"]
    assert "/tmp/one/storage/main.tf.json: checkov cannot read it" in verdict({}, empty).problems


def test_a_checkov_that_does_not_find_what_it_must_does_not_pass() -> None:
    blind = document()
    blind["results"]["failed_checks"].pop()
    assert verdict({"one/storage": ROOT}, blind).problems == ("checkov does not find CKV_OCI_22 where it is",)


def test_checks_are_left_out_only_where_their_reason_holds() -> None:
    assert problems(told("CKV2_OCI_2", "out")) == []
    assert len(problems(told("CKV2_OCI_2", "in"))) == 1
    assert problems(told("CKV_OCI_4", "n2")) == []
    assert len(problems(told("CKV_OCI_4", "n1"))) == 1
    # A grid with a key: what has none was forgotten.
    keyed = copy.deepcopy(ROOT)
    keyed["resource"]["oci_core_volume"]["v2"] = {"kms_key_id": "ocid1.key.oc1.iad.a"}
    assert len(problems(told("CKV_OCI_3", "v1"), root=keyed)) == 1
    # Another resource of the same check than the one that the reason is about.
    assert len(problems(told("CKV_OCI_2", "n1"))) == 1
    assert all(each.why for each in LEFT_OUT.values())
