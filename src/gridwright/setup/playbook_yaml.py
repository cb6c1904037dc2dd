"""Variables as YAML that Ansible reads as they were: it has YAML 1.1, in which more words are no text."""

from __future__ import annotations

import io
import json
import re
from functools import lru_cache
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

_OTHERWISE = re.compile(r"(?i:y|n|yes|no|on|off)|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
"""Truth values, and numbers to the base 60 (YAML 1.1, types bool, int and float), that YAML 1.2 has not."""


def playbook_yaml(content: object) -> str:
    """Plain data as YAML, in the form that ansible-lint asks for."""
    # Plain data: what the spec has are classes of its own, which YAML would write as such.
    if isinstance(content, dict) and content:
        return "".join(_written(json.dumps({name: each})) for name, each in content.items())
    return _written(json.dumps(content))


@lru_cache(maxsize=1024)
def _written(data: str) -> str:
    """Bundles of one grid have most variables in common, and to write YAML takes long."""
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.width = 110
    text = io.StringIO()
    yaml.dump(_quoted(json.loads(data)), text)
    return text.getvalue()


def _quoted(value: Any) -> Any:  # noqa: ANN401 - any plain data
    if isinstance(value, dict):
        return {_quoted(name): _quoted(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_quoted(each) for each in value]
    if isinstance(value, str) and _OTHERWISE.fullmatch(value):
        return DoubleQuotedScalarString(value)
    return value
