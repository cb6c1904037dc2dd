"""Holds the words of tools/words.toml, in names of definitions by syntax tree and in prose by codespell."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LIST = Path("tools/words.toml")
SOURCE = Path("src/gridwright")
PROSE = ("src", "docs", "README.md", "CONTRIBUTING.md")
"""Tests write mistakes on purpose: of them the docstrings alone are read."""
SKIPPED = "*.so,*.pyc,*.min.js,*.esm.js,*.json,*.csv,*.tsv,*.svg,*.png"


def words_of(name: str) -> set[str]:
    """The words of a name, in lower case."""
    return {word.lower() for word in re.split(r"_+|(?<=[a-z0-9])(?=[A-Z])", name) if word}


def name_problems(source: Path, names: Mapping[str, str]) -> list[str]:
    """Every definition and module whose name has a private word, and what the field says."""
    problems = []
    for path in sorted(source.rglob("*.py")):
        place = path.relative_to(source).as_posix()
        found = [(1, path.stem)]
        found += [
            (node.lineno, node.name)
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        ]
        problems += [
            f"{place}:{line}: {name}: not {word}, but {names[word]}"
            for line, name in found
            for word in sorted(words_of(name) & names.keys())
        ]
    return problems


def phrase_problems(files: Mapping[str, str], phrases: Mapping[str, str]) -> list[str]:
    """Phrases of the list in texts, by their names."""
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, phrases))})\b", re.IGNORECASE)
    return [
        f"{name}:{number}: {match[0]} ==> {phrases[match[0].lower()]}"
        for name, text in files.items()
        for number, line in enumerate(text.splitlines(), 1)
        for match in pattern.finditer(line)
    ]


def docstrings(tests: Path) -> str:
    """The docstrings of tests, each below its file."""
    texts = []
    for path in sorted(tests.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and (
                text := ast.get_docstring(node)
            ):
                texts.append(f"{path}: {text}")
    return "\n".join(texts)


def spelling_status(rules: Mapping[str, Any], paths: tuple[str, ...], more: str = "") -> int:
    """Run codespell with its own dictionary and ours on files and on one more text; its exit status."""
    with tempfile.TemporaryDirectory() as directory:
        dictionary = Path(directory, "dictionary.txt")
        dictionary.write_text("".join(f"{word}->{better}\n" for word, better in rules["prose"].items()))
        text = Path(directory, "docstrings")
        text.write_text(more)
        return subprocess.run(
            [
                *(
                    sys.executable,
                    "-m",
                    "codespell_lib",
                    "--dictionary",
                    "-",
                    "--dictionary",
                    str(dictionary),
                ),
                *("--ignore-words-list", ",".join(rules["spelling"]["ignore"]), "--skip", SKIPPED),
                *("--quiet-level", "3", *paths, str(text)),
            ],
            check=False,
        ).returncode


def main() -> int:
    """Print all that is wrong."""
    rules = tomllib.loads(LIST.read_text("utf-8"))
    texts = {
        str(path): path.read_text("utf-8")
        for pattern in ("src/**/*.py", "docs/*.md", "README.md")
        for path in sorted(Path().glob(pattern))
    }
    problems = [*name_problems(SOURCE, rules["names"]), *phrase_problems(texts, rules["phrases"])]
    print(*problems, sep="\n", end="\n" if problems else "")
    return bool(problems) | bool(spelling_status(rules, PROSE, docstrings(Path("tests"))))


if __name__ == "__main__":
    sys.exit(main())
