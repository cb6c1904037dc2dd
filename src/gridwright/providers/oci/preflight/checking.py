"""`up --check`: what up would fail of in the tenancy, and on this machine."""

from __future__ import annotations

from dataclasses import replace

from gridwright.errors import Finding, GridwrightError
from gridwright.providers.caller import Caller
from gridwright.providers.oci.deploy.choosing import deployer_of
from gridwright.providers.oci.files import checked_layout
from gridwright.providers.oci.known_state import unknown_grid
from gridwright.providers.oci.layout import oci_section
from gridwright.providers.oci.preflight.looking import preflight
from gridwright.providers.oci.session import OciCallError, OciCloud
from gridwright.providers.preflight import Preflight
from gridwright.spec.model import GridSpec


def check(spec: GridSpec) -> Preflight:
    """All that is found; nothing is made. Raises GridwrightError where nothing can be looked at."""
    layout = checked_layout(spec)
    cloud = OciCloud(str(spec.region))
    found = preflight(spec, layout, cloud)
    findings = [*_deployer_findings(spec, cloud), *found.findings]
    return replace(found, findings=tuple(findings))


def _deployer_findings(spec: GridSpec, cloud: OciCloud) -> list[Finding]:
    """Whether what carries the roots out is here, and knows the grid where that is there."""
    try:
        deployer = deployer_of(spec, oci_section(spec), cloud, Caller())
        unknown = list(unknown_grid(spec, cloud, deployer))
    except OciCallError:
        raise
    except GridwrightError as error:
        return [Finding("error", "deployer-unfit", each.what, each.remedy or "") for each in error.problems]
    return [Finding("error", "state-elsewhere", each.what, each.remedy or "") for each in unknown]
