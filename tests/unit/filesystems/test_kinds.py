"""Every kind of file system is one package, and nothing outside it names its classes or its type."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from gridwright.filesystems import all_kinds
from gridwright.filesystems.builtin import BUILT_IN
from gridwright.filesystems.kind import FileSystemKind
from gridwright.spec.filesystem import FILESYSTEMS
from tests.support.source_names import IMPORTS, MODULES, NAMES, STRINGS, ByModule, nodes, strings, strings_in

KINDS = dict(all_kinds())

COMMON_WORDS = frozenset({"local", "scale", "managed"})
"""Types that are words of other things, too: of providers and schedulers, of the workload's size, of records
and plans. Of these it is held that nothing compares them with a type, and that nothing writes them as one."""

NAMES_OF_OTHERS = {
    "lustre": {
        "cli/data/serve.py": "the kernel's name of it, in /proc/mounts: a copytool speaks its HSM alone",
        "doctor/checks/machine.py": "the kernel's name of it, in /proc/mounts: whoever mounted it",
        "filesystems/mounts.py": "the kernel's name of it, among all that Linux reads over a network",
        "filesystems/lustre_client/client.py": "the kernel's name of it, for mount(8)",
        "filesystems/lustre_client/mounts.py": "the kernel's name of it, in /proc/mounts",
        "filesystems/oci_lustre/fields.py": "what Oracle calls a file system that has no other name",
        "providers/boot/roles/lustre_server/files/lustre_health.py": "a name below /proc, on servers",
        "node_programs/lustre_targets/tools.py": "the kernel's name of it, for mount(8); no spec is there",
    },
    "nfs": {
        "filesystems/scale/nfs_rules.py": "a section of that kind's own, for the protocol",
        "filesystems/scale/site_rules.py": "a section of that kind's own, for the protocol",
        "filesystems/scale/administration/desired.py": "that section, written down for its servers",
        "filesystems/nfs_client/mount_facts.py": "the kernel's name of it, for mount(8)",
        "doctor/facts/gather.py": "the kernel's name of it, in /proc/self/mountinfo",
        "filesystems/mounts.py": "the kernel's name of it, among all that Linux reads over a network",
    },
}
"""Where a string that equals a type means another thing: type, then module, then what it means."""


def package_of(kind: FileSystemKind[Any]) -> str:
    """`filesystems.lustre`, the package that holds a kind."""
    name = type(kind).__module__.rpartition(".")[0]
    return name.removeprefix("gridwright.")


def outside(kind: FileSystemKind[Any]) -> Iterator[tuple[str, ast.Module]]:
    """Modules of Gridwright that are not of a kind's package, without the list of kinds."""
    own = package_of(kind).replace(".", "/") + "/"
    for name, tree in MODULES.items():
        if not name.startswith(own) and name != "filesystems/builtin.py":
            yield name, tree


def names_of(kind: FileSystemKind[Any]) -> set[str]:
    """Classes of a kind: its model, the kind itself, and what else is public in these two modules."""
    found = set()
    for module in (inspect.getmodule(type(kind)), inspect.getmodule(kind.spec_model)):
        found |= {
            name
            for name, each in vars(module).items()
            if inspect.isclass(each) and each.__module__ == getattr(module, "__name__", "")
        }
    return found


def asks_for_a_type(node: ast.expr) -> bool:
    """Whether an expression is the type of something: `x.type`, `x["type"]`, `x.get("type")`, `kind`."""
    match node:
        case ast.Attribute(attr="type") | ast.Name(id="type" | "kind"):
            return True
        case ast.Subscript(slice=ast.Constant(value="type")):
            return True
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value="type"), *_]):
            return True
    return False


def types_named(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and string of what is compared with a type, or written as one."""
    for node in nodes(tree):
        match node:
            case ast.Compare(left=left, comparators=others):
                sides = [left, *others]
                if any(map(asks_for_a_type, sides)):
                    yield from ((node.lineno, text) for side in sides for text in strings(side))
            case ast.Match(subject=subject, cases=cases) if asks_for_a_type(subject):
                for case in cases:
                    for each in ast.walk(case.pattern):
                        if isinstance(each, ast.MatchValue):
                            yield from ((each.value.lineno, text) for text in strings(each.value))
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == "type":
                        yield from ((node.lineno, text) for text in strings(value))


TYPES = ByModule(lambda name: [*types_named(MODULES[name])])


@pytest.mark.parametrize(
    "code",
    [
        'filesystem.type == "toyfs"',
        '"toyfs" != each["type"]',
        'each.get("type") in ("local", "toyfs")',
        'kind not in {"toyfs"}',
        'match each.type:\n    case "local" | "toyfs":\n        pass',
        'section = {"type": "toyfs", "path": "/t"}',
    ],
)
def test_what_names_a_type_is_seen(code: str) -> None:
    assert "toyfs" in [text for _, text in types_named(ast.parse(code))]
    assert "toyfs" in strings_in(ast.parse(code))


def test_what_names_no_type_is_passed_over() -> None:
    code = 'def f():\n    """toyfs"""\n    return provider == "toyfs"'
    assert list(types_named(ast.parse(code))) == []
    assert strings_in(ast.parse(code)) == {"toyfs"}
    assert "toyfs" not in strings_in(ast.parse('"toyfs"'))


def test_there_are_kinds_to_hold_this_for() -> None:
    assert list(KINDS)[: len(BUILT_IN)] == list(BUILT_IN)
    assert len(BUILT_IN) >= 6
    assert len(MODULES) > 300
    assert set(BUILT_IN) >= COMMON_WORDS
    assert FILESYSTEMS.broken() == []


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_is_one_package(name: str) -> None:
    kind = KINDS[name]
    package = package_of(kind)
    assert package.count(".") == 1, "a package of its own, right in the room"
    assert type(kind).__module__ == f"gridwright.{package}.kind"
    assert kind.spec_model.__module__ == f"gridwright.{package}.model"
    assert len({package_of(each) for each in KINDS.values()}) == len(KINDS)


@pytest.mark.parametrize("name", KINDS)
def test_nothing_outside_imports_a_kind(name: str) -> None:
    package = f"gridwright.{package_of(KINDS[name])}"
    found = [
        f"{module}: {each}"
        for module, _ in outside(KINDS[name])
        for each in IMPORTS[module]
        if each == package or each.startswith(package + ".")
    ]
    assert found == []


@pytest.mark.parametrize("name", KINDS)
def test_nothing_outside_names_a_class_of_a_kind(name: str) -> None:
    names = names_of(KINDS[name])
    assert len(names) >= 2
    found = []
    for module, _ in outside(KINDS[name]):
        found += [f"{module}: {each}" for each in NAMES[module] if each in names]
    assert found == []


@pytest.mark.parametrize("name", KINDS)
def test_nothing_outside_compares_or_writes_the_type_of_a_kind(name: str) -> None:
    found = [
        f"{module}:{line}"
        for module, _ in outside(KINDS[name])
        for line, text in TYPES[module]
        if text == name and module not in NAMES_OF_OTHERS.get(name, ())
    ]
    assert found == []


@pytest.mark.parametrize("name", [each for each in KINDS if each not in COMMON_WORDS])
def test_nothing_outside_holds_the_type_of_a_kind_in_any_way(name: str) -> None:
    """No string equals it: no comparison, no key of a mapping, no member of a list."""
    found = {module for module, _ in outside(KINDS[name]) if name in STRINGS[module]}
    others = set(NAMES_OF_OTHERS.get(name, {}))
    assert found - others == set()
    assert others - found == set(), "an exception that nothing needs"


def test_kinds_are_imported_when_they_are_asked_for() -> None:
    """To read a spec, the kinds that it names, and nothing that only their rates or health need."""
    code = (
        "import sys; from gridwright.spec import parse_spec\n"
        "parse_spec('filesystems: {disk: {type: local, path: /data}}')\n"
        "print(*(name for name in sys.modules if name.startswith('gridwright.filesystems.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    loaded = {name for name in done.stdout.split() if "." in name.removeprefix("gridwright.filesystems.")}
    assert loaded == {f"gridwright.filesystems.local.{part}" for part in ("kind", "model")}
