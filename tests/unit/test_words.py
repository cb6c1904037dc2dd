"""The check of words refuses a private word in a name and in a phrase."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
NAMES = {"told": "reported", "patience": "timeout"}


@pytest.fixture(scope="module")
def words() -> ModuleType:
    spec = importlib.util.spec_from_file_location("words", ROOT / "tools/words.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def house(directory: Path, **files: str) -> Path:
    for name, text in files.items():
        path = directory / name.replace("__", "/")
        path.parent.mkdir(exist_ok=True)
        path.with_suffix(".py").write_text(text)
    return directory


def test_a_private_word_in_a_name_is_refused(words: ModuleType, tmp_path: Path) -> None:
    source = house(
        tmp_path,
        new__node="class ToldSpace:\n    def asks(self): ...\n\n\nasync def _is_told(): ...\n",
        new__patience="",
    )
    assert words.name_problems(source, NAMES) == [
        "new/node.py:1: ToldSpace: not told, but reported",
        "new/node.py:5: _is_told: not told, but reported",
        "new/patience.py:1: patience: not patience, but timeout",
    ]


def test_a_phrase_is_refused(words: ModuleType) -> None:
    text = {"docs/a.md": "Jobs are\nHanded in here; handed information\n"}
    problems = words.phrase_problems(text, {"handed in": "submitted"})
    assert problems == ["docs/a.md:2: Handed in ==> submitted"]


def test_codespell_has_our_dictionary_and_its_own(words: ModuleType, tmp_path: Path) -> None:
    rules = tomllib.loads((ROOT / "tools/words.toml").read_text("utf-8"))
    text = tmp_path / "page.md"
    text.write_text("A heartbeat that is received.\n")
    assert words.spelling_status(rules, (str(text),)) == 0
    for wrong in ("A herald.\n", "It is recieved.\n"):
        text.write_text(wrong)
        assert words.spelling_status(rules, (str(text),)) != 0


def test_the_house_has_no_private_name(words: ModuleType) -> None:
    rules = tomllib.loads((ROOT / "tools/words.toml").read_text("utf-8"))
    assert words.name_problems(ROOT / "src/gridwright", rules["names"]) == []
