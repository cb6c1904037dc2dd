"""Documents hold together: links lead somewhere, and messages name pages and findings that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from gridwright.cli.shell import help
from gridwright.cli.verbs import VERBS
from gridwright.doctor.checks import all_checks
from gridwright.spec.findings import KNOWN
from tests.support.source_names import MODULES, nodes

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").glob("*.md"))
WRITTEN = [*DOCS, *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))]
LINK = re.compile(r"(?<!!)\[[^\]\[]*\]\((?P<target>[^()\s]+)\)")
HELP = re.compile(r"gridwright help (?P<topic>[a-z][a-z-]*)")
COMMITTED_ONLY = re.compile(r"(?:docs|bench|tests|requirements)/[\w/.-]+\.(?:md|py|yaml)")


def prose(path: Path) -> str:
    """A page without its code."""
    text = re.sub(r"(?ms)^(```|~~~).*?^\1$", "", path.read_text("utf-8"))
    return re.sub(r"`[^`\n]*`", "code", text)


def anchors(path: Path) -> set[str]:
    """What code hosts, and Sphinx as it is set up, call the headings of a page."""
    text = re.sub(r"(?ms)^(```|~~~).*?^\1$", "", path.read_text("utf-8"))
    titles = re.findall(r"(?m)^#{1,6} (.+?)\s*$", text)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    dead = []
    for target in (found["target"] for found in LINK.finditer(prose(path))):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        if not there.exists() or (anchor and anchor not in anchors(there)):
            dead.append(target)
    assert dead == []


def test_every_page_is_listed_once() -> None:
    assert sorted(help.pages()) == sorted(path.stem for path in DOCS if path.stem != help.INDEX)


def strings(tree: ast.Module) -> list[str]:
    """All strings but docstrings, of which those of functions stay: they are the help of verbs."""
    helps = {id(node.body[0]) for node in nodes(tree) if isinstance(node, ast.FunctionDef)}
    told = {id(node.value) for node in nodes(tree) if isinstance(node, ast.Expr) and id(node) not in helps}
    return [
        node.value
        for node in nodes(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told
    ]


def messages() -> dict[str, str]:
    """All that users may read of the package, by file."""
    found = {name: "\n".join(strings(tree)) for name, tree in MODULES.items()}
    source = ROOT / "src" / "gridwright"
    for pattern in ("*.yaml", "*.j2", "*.html", "*.sh"):
        found |= {str(path.relative_to(source)): path.read_text("utf-8") for path in source.rglob(pattern)}
    return found


def test_messages_name_pages_that_an_installed_package_carries() -> None:
    topics = {*help.pages(), *help.findings(), *(verb for verbs in VERBS.values() for verb in verbs)}
    named = {(name, topic) for name, text in messages().items() for topic in HELP.findall(text)}
    assert len({topic for _, topic in named}) > 8, "no message was found to name a page"
    assert {each for each in named if each[1] not in topics} == set()


def test_no_message_names_a_file_that_only_a_checkout_has() -> None:
    wrong = {
        (name, line.strip())
        for name, text in messages().items()
        if not name.startswith(("report/papers/", "model/data/", "setup/tuning.yaml"))
        for line in text.splitlines()
        if COMMITTED_ONLY.search(line) and "--markdown" not in line
    }
    assert wrong - {("cli/plan/predict.py", "With --papers: print docs/papers.md.")} == set()


_MADE_BY = ("Finding", "FindingRecord")


def made_findings() -> set[str]:
    """The names of findings that the sources make; of a name that is put together, its fixed beginning."""
    names: set[str] = set()
    for tree in MODULES.values():
        for node in nodes(tree):
            if not isinstance(node, ast.Call) or getattr(node.func, "id", "") not in _MADE_BY:
                continue
            given = [*node.args[1:2], *(each.value for each in node.keywords if each.arg == "name")]
            match given:
                case [ast.Constant(value=str(name))]:
                    names.add(name)
                case [ast.JoinedStr(values=[ast.Constant(value=str(start)), *_])]:
                    names.add(start)
    return names


def explained(name: str, page: str) -> str:
    return help.sections(help.page(page), depth=4).get(name, "")


def test_every_finding_is_explained() -> None:
    made = made_findings()
    assert {"stalled", "wrong-data", "profile-io-"} <= made
    checks = {check.name for check in all_checks()}
    guide = help.sections(help.page("bad-result"), depth=4)
    unfinished = {name for name in made if name.endswith("-")}
    lacking = {
        name for name in (made - unfinished) | KNOWN.keys() if name not in guide and name not in checks
    }
    lacking |= {start for start in unfinished if not any(name.startswith(start) for name in guide)}
    assert lacking == set(), "give each a section in docs/bad-result.md: its cause, its remedy"
    assert (
        guide.keys() - KNOWN.keys() - made - checks
        == {name for name in guide if any(name.startswith(start) for start in unfinished)} - KNOWN.keys()
    ), "no such finding is made any more"


@pytest.mark.parametrize("name", sorted(help.sections(help.page("bad-result"), depth=4)))
def test_a_section_has_cause_and_remedy(name: str) -> None:
    text = explained(name, "bad-result")
    assert re.search(r"^\*\*Cause:\*\* \S", text)
    assert re.search(r"(?m)^\*\*Remedy:\*\* \S", text)


def test_every_kind_has_an_example_that_was_run() -> None:
    text = help.page("bad-result")
    kinds = [title for title, part in help.sections(text, depth=2).items() if part]
    whole = re.split(r"(?m)^## ", text)[1:]
    assert len(kinds) == len(whole) > 8
    for part in whole:
        example = re.search(r"(?ms)^<!-- begin [\w-]+ -->\n```text\n\$ \S+ .*?\n```\n<!-- end", part)
        assert example, f"{part.splitlines()[0]}: run bench/guides.py --publish"
