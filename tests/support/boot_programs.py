"""Programs that machines of a cloud run at their start, which import each other as files beside them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import gridwright.providers


@contextmanager
def boot_programs(
    directory: Path, sources: Mapping[str, str], *names: str
) -> Iterator[Mapping[str, ModuleType]]:
    """These modules out of the files of a bundle or of user data, as `directory` has them side by side."""
    before = {*sys.modules}
    for name, text in sources.items():
        (directory / Path(name).name).write_text(text)
    sys.path.insert(0, str(directory))
    try:
        yield {name: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(str(directory))
        for name in {*sys.modules} - before:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(directory)):
                del sys.modules[name]


def sources(provider: str) -> dict[str, str]:
    """All programs of a cloud's machines, its own and those that all clouds have."""
    root = Path(gridwright.providers.__path__[0])
    found = [*(root / "boot").glob("*.py"), *(root / provider / "boot").glob("*.py")]
    return {each.name: each.read_text() for each in found if each.name != "__init__.py"}
