"""The login of Gridwright's own calls, as the Terraform provider of OCI takes it from its environment.

The provider reads each setting from TF_VAR_name (oracle/terraform-provider-oci, provider.go), and knows
neither OCI_CLI_CONFIG_FILE nor OCI_CLI_PROFILE. So both would not be the same user without this.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gridwright.errors import environment_error

_SETTINGS = {
    "tenancy": "tenancy_ocid",
    "user": "user_ocid",
    "fingerprint": "fingerprint",
    "key_file": "private_key_path",
    "pass_phrase": "private_key_password",
}
"""Settings of ~/.oci/config, and the names that the provider has for them."""
_DEFAULT = Path("~/.oci/config")


def provider_login(config: Mapping[str, Any]) -> dict[str, str]:
    """Variables of the environment, from the SDK's configuration. Raises GridwrightError."""
    if "user" not in config and "security_token_file" not in config:
        return {"TF_VAR_auth": "InstancePrincipal"}
    if "security_token_file" in config:
        # The provider finds a session's token by its profile alone, and in this file alone.
        given = os.environ.get("OCI_CLI_CONFIG_FILE")
        if given is not None and Path(given).expanduser().resolve() != _DEFAULT.expanduser().resolve():
            raise environment_error(
                f"the Terraform provider of OCI looks for a session's token in {_DEFAULT} alone",
                where=f"OCI_CLI_CONFIG_FILE={given}",
                remedy=f"move the profile to {_DEFAULT}, use an API key, or write deploy: resource-manager",
            )
        profile = os.environ.get("OCI_CLI_PROFILE", "DEFAULT")
        return {"TF_VAR_auth": "SecurityToken", "TF_VAR_config_file_profile": profile}
    found = {f"TF_VAR_{theirs}": str(config[ours]) for ours, theirs in _SETTINGS.items() if config.get(ours)}
    if key := found.get("TF_VAR_private_key_path"):
        found["TF_VAR_private_key_path"] = str(Path(key).expanduser())
    return {"TF_VAR_auth": "APIKey", **found}
