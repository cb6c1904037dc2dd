"""A candidate as a grid spec that every other command reads."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gridwright.plan.candidates import Candidate, on_node_disks
from gridwright.plan.design import DesignGrowth
from gridwright.plan.needs import Needs
from gridwright.plan.node_side import Place
from gridwright.spec.filesystem import filesystem_kind_in
from gridwright.spec.model import GridSpec

_NAMES: Mapping[Place, str] = {
    "shared": "shared",
    "scratch": "scratch",
    "instance-store": "local",
    "volumes": "volumes",
}
"""Names of the new file systems of a design; their paths are the same."""


def design_spec(candidate: Candidate, needs: Needs) -> GridSpec:
    """The grid spec of a candidate."""
    base = needs.spec.file.parent if needs.spec.file else Path.cwd()
    return GridSpec.model_validate(_document(candidate, needs), context={"base": base})


def design_growth(candidate: Candidate, needs: Needs) -> DesignGrowth | None:
    """What becomes of a candidate in 12 months; None where no library grows."""
    if not needs.grows:
        return None
    names = _new_names(candidate, needs)
    grown = {names[place]: growth for place, (growth, _) in candidate.growths.items()}
    return DesignGrowth(candidate.later_usd_per_hour, candidate.usd_per_hour, grown)


def spec_document(spec: GridSpec) -> dict[str, Any]:
    """A planned spec as plain values, which are YAML and JSON alike."""
    return spec.model_dump(mode="json", exclude_unset=True, exclude_none=True)


def spec_text(spec: GridSpec) -> str:
    """A planned spec as the text of a file."""
    from ruamel.yaml import YAML

    writer = YAML()
    writer.default_flow_style = False
    writer.width = 110
    out = io.StringIO()
    out.write("# Written by gridwright plan; see what it delivers with gridwright predict.\n\n")
    writer.dump(spec_document(spec), out)
    return out.getvalue()


def _document(candidate: Candidate, needs: Needs) -> dict[str, Any]:
    spec = needs.spec
    given = spec.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    document: dict[str, Any] = {"name": spec.name, "provider": spec.provider}
    if spec.region:
        document["region"] = spec.region
    document["requirements"] = given["requirements"]
    group = needs.given.group
    chosen: dict[str, Any] = {"instance": candidate.instance.name} if spec.is_cloud else {}
    chosen["count"] = candidate.count
    document["nodes"] = {group: {**given.get("nodes", {}).get(group, {}), **chosen}}
    names = _new_names(candidate, needs)
    document["filesystems"] = {**needs.given.document(), **_filesystems(candidate, names)}
    libraries = {name: _library(name, candidate, given, names) for name in candidate.places}
    document["libraries"] = {
        name: _with_layout(library, document["filesystems"]) for name, library in libraries.items()
    }
    for section in (spec.provider, "scheduler", "report", "silence"):
        if section in given:
            document[section] = given[section]
    pairs = spec.provider_kind.shared_volumes
    if pairs and spec.provider in document and candidate.shared and candidate.shared.shares_volumes:
        document[spec.provider] |= pairs.settings(spec) or {}
    return document


def _with_layout(library: dict[str, Any], filesystems: Mapping[str, Any]) -> dict[str, Any]:
    """The library without a layout where its file system takes none."""
    kind = filesystem_kind_in(filesystems[library["filesystem"]])
    takes = kind is not None and kind.spec_model.takes_layouts
    return library if takes else {key: value for key, value in library.items() if key != "layout"}


def _new_names(candidate: Candidate, needs: Needs) -> dict[Place, str]:
    """What new file systems are called: as few designs as can be have another name than the usual one."""
    used = set(candidate.places.values())
    filesystems = needs.given.filesystems
    taken = {*filesystems, *(str(filesystem.path).strip("/") for filesystem in filesystems.values())}
    return {
        place: f"new-{name}" if name in taken else name for place, name in _NAMES.items() if place in used
    }


def _filesystems(candidate: Candidate, names: Mapping[Place, str]) -> dict[str, Any]:
    filesystems: dict[str, Any] = {}
    for place, name in names.items():
        if place == "instance-store":
            plain = on_node_disks({"type": "instance-store"})
        elif place == "volumes" and candidate.volumes is not None:
            plain = on_node_disks(candidate.volumes.plain())
        else:
            choice = candidate.shared if place == "shared" else candidate.scratch
            plain = dict(choice.plain) if choice else {}
        filesystems[name] = {"type": plain.pop("type"), "path": f"/{name}", **plain}
    return filesystems


def _library(
    name: str, candidate: Candidate, given: dict[str, Any], names: Mapping[Place, str]
) -> dict[str, Any]:
    stated = given["libraries"][name]
    home = candidate.homes.get(name)
    kept = {key: value for key, value in stated.items() if key not in ("filesystem", "path")}
    # The directory of a library is a part of what is there.
    own = {"path": stated["path"]} if home and stated.get("path", name) != name else {}
    return {"filesystem": home or names[candidate.places[name]], **own, **kept}
