"""Builds OpenTofu and the stand-in for the provider of OCI: `python -m tests.support.tofu`."""

from tests.support import oci_provider
from tests.support.tofu import tofu

if __name__ == "__main__":
    tofu()
    oci_provider.mirror()
