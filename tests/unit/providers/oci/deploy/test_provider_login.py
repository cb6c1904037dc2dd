"""The provider of Terraform logs in as Gridwright's own calls do."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridwright.errors import GridwrightError
from gridwright.providers.oci.deploy import provider_login

KEY = {
    "tenancy": "ocid1.tenancy.oc1..a",
    "user": "ocid1.user.oc1..a",
    "fingerprint": "20:3b",
    "key_file": "~/.oci/key.pem",
    "region": "us-ashburn-1",
    "pass_phrase": None,
}


def test_an_api_key() -> None:
    found = provider_login(KEY)
    assert found == {
        "TF_VAR_auth": "APIKey",
        "TF_VAR_tenancy_ocid": "ocid1.tenancy.oc1..a",
        "TF_VAR_user_ocid": "ocid1.user.oc1..a",
        "TF_VAR_fingerprint": "20:3b",
        "TF_VAR_private_key_path": str(Path("~/.oci/key.pem").expanduser()),
    }
    assert "x" in provider_login(KEY | {"pass_phrase": "x"}).values()


def test_a_session_token_is_found_by_the_profile_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OCI_CLI_CONFIG_FILE", raising=False)
    monkeypatch.setenv("OCI_CLI_PROFILE", "grids")
    token = {**KEY, "security_token_file": "token"}
    assert provider_login(token) == {
        "TF_VAR_auth": "SecurityToken",
        "TF_VAR_config_file_profile": "grids",
    }
    monkeypatch.setenv("OCI_CLI_CONFIG_FILE", "/elsewhere/config")
    with pytest.raises(GridwrightError, match="alone") as raised:
        provider_login(token)
    assert "API key" in str(raised.value)


def test_an_instance_of_its_own() -> None:
    assert provider_login({"region": "us-ashburn-1"}) == {"TF_VAR_auth": "InstancePrincipal"}
