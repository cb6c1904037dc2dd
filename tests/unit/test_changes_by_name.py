"""Owners, modes, attributes and removals go by descriptor, in one module, where another user can write.

Each place that does otherwise is named here, with the reason why no other user can exchange what it names.
"""

from __future__ import annotations

import ast
import re
from collections import Counter

from tests.support.source_names import MODULES, SOURCE, nodes

ONE_MODULE = "beneath.py"
CHANGES = {
    "os": frozenset(
        {*("chmod", "lchmod", "chown", "lchown", "utime", "setxattr", "removexattr", "mknod", "removedirs")}
    ),
    # What is made in it goes by its name, which TMPDIR may have put where others write.
    "tempfile": frozenset({"mkdtemp", "mktemp", "TemporaryDirectory"}),
    "shutil": frozenset({*("rmtree", "chown", "copystat", "copymode", "copy", "copy2", "copytree", "move")}),
}
METHODS = frozenset({"chmod", "lchmod", "extractall"})
"""Of paths, and of archives."""

OPEN = "of an open descriptor, never of a path"
ROOTS = "in a directory of the system's that root alone writes"
LAB = "in the directory of a lab or of its image, below root's own, while no node of the lab runs"
STATE = "in the user's own part of the state directory, which is believed before it is used"
REVIEWED: dict[str, dict[str, str]] = {
    "own_directories.py": {"tempfile.mkdtemp": "where nobody else can exchange it, which is looked at first"},
    "node_programs/users/planning.py": dict.fromkeys(
        ("os.lchown", "shutil.copy2", "shutil.copytree"),
        "below the descriptor of a home that nobody else may enter yet",
    ),
    "providers/aws/boot/bake.py": {"shutil.rmtree": "on a machine that no user has, to make an image of"},
    "providers/boot/fetch.py": {"shutil.rmtree": ROOTS},
    "providers/lab/image.py": dict.fromkeys(("Path.chmod", "shutil.rmtree"), LAB),
    "providers/lab/boot.py": dict.fromkeys(
        ("Path.chmod", "os.lchown", "shutil.copytree", "shutil.rmtree"), LAB
    ),
    "providers/lab/teardown.py": {"shutil.rmtree": LAB},
    "repository/copytool/liblustreapi.py": {"os.setxattr": OPEN},
    "repository/making.py": {"os.utime": OPEN},
    "repository/migration/copying.py": {"os.mknod": "in a directory that nobody else may enter"},
    "repository/references.py": dict.fromkeys(
        ("os.setxattr", "os.removexattr"),
        "of a descriptor, or of a FID of Lustre, which names an inode; no link is followed",
    ),
    "repository/below.py": {"os.utime": OPEN},
    "repository/state_directory.py": dict.fromkeys(("os.setxattr", "os.removexattr"), OPEN),
    "repository/unfinished.py": {"os.utime": OPEN},
    "schedulers/batch/record.py": {"Path.chmod": STATE},
    "workload/exchange.py": {"os.utime": STATE},
}

SHELL = re.compile(
    r"\brm -\w*[rR]\w* |\bch(?:own|mod|grp) -\w*R|\bfind [^\n]*-(?:delete|exec)|\brecurse: *(?:true|yes)|"
    r"\bsetfacl -\w*R|/tmp/[a-z]"
)
"""What goes down a tree in a shell or in Ansible, and names in /tmp that anybody can take beforehand."""
SHELL_REVIEWED = {
    "grid/unpack_part.sh": "in the user's own cache, which is looked at first, with the way to it",
    "iotest/library_facts.py": "a word for people, of a directory that their own command has made",
    "providers/aws/provider.py": "on a machine that no user has, to make an image of",
    "schedulers/grid_engine/kind.py": (
        "of a lab's controller: the spool of sge_qmaster's own user before it runs, and what mktemp made"
    ),
    "schedulers/batch/submission.py": "the job's user's own, where no other user can give them other names",
    "schedulers/slurm/job_script.py": "the same; elsewhere below the open directory that the job has made",
    "setup/playbook.py": "a word for people, of a role that is theirs",
}


def changes(tree: ast.Module) -> Counter[str]:
    """Calls that change what a path names."""
    found: Counter[str] = Counter()
    for node in nodes(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        name, of = node.func.attr, node.func.value
        module = of.id if isinstance(of, ast.Name) else ""
        if name in CHANGES.get(module, ()):
            found[f"{module}.{name}"] += 1
        elif name in METHODS and module not in CHANGES:
            found[f"Path.{name}"] += 1
    return found


def test_changes_go_by_descriptor_in_one_module() -> None:
    found = {
        module: set(changes(tree))
        for module, tree in MODULES.items()
        if module != ONE_MODULE and changes(tree)
    }
    new = {module: calls - REVIEWED.get(module, {}).keys() for module, calls in found.items()}
    assert not {module: calls for module, calls in new.items() if calls}, f"use {ONE_MODULE}, or say why not"
    gone = {module: calls.keys() - found.get(module, set()) for module, calls in REVIEWED.items()}
    assert not {module: calls for module, calls in gone.items() if calls}, "take them out of the table"


def test_nothing_hides_behind_another_name() -> None:
    """A name imported from os or shutil, or a call handed on, would escape the look above."""
    hidden = []
    for module, tree in MODULES.items():
        called = {id(node.func) for node in nodes(tree) if isinstance(node, ast.Call)}
        for node in nodes(tree):
            match node:
                case ast.ImportFrom(module=str(of), names=names):
                    found = [each.name for each in names]
                case ast.Attribute(value=ast.Name(id=of), attr=name) if id(node) not in called:
                    found = [name]
                case _:
                    continue
            hidden += [f"{module}: {of}.{name}" for name in found if name in CHANGES.get(of, ())]
    assert hidden == []


def test_shells_go_down_no_tree_that_others_write() -> None:
    found: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*")):
        if path.suffix in {".py", ".sh", ".yml", ".j2", ".service"} and path.is_file():
            lines = [line.strip() for line in path.read_text().splitlines() if SHELL.search(line)]
            found |= {path.relative_to(SOURCE).as_posix(): lines} if lines else {}
    assert found.keys() == SHELL_REVIEWED.keys(), found


def starts_of_python(tree: ast.Module) -> list[tuple[int, list[str]]]:
    """Lines of commands that begin with this Python, and their words that are written out."""
    found = []
    for node in nodes(tree):
        if not isinstance(node, ast.List | ast.Tuple) or not node.elts:
            continue
        if ast.unparse(node.elts[0]) == "sys.executable":
            words = [each.value for each in node.elts[1:] if isinstance(each, ast.Constant)]
            found.append((node.lineno, [str(each) for each in words]))
    return found


def test_python_takes_no_module_from_the_callers_working_directory() -> None:
    """Without -P or -I, `python -m` looks for modules in the working directory first, also as root."""
    starts = [
        (f"{module}:{line}", words)
        for module, tree in MODULES.items()
        for line, words in starts_of_python(tree)
    ]
    assert len(starts) > 15
    unsafe = [place for place, words in starts if {"-m", "-c"} & {*words} and not {"-P", "-I"} & {*words[:1]}]
    assert unsafe == []


def test_shells_start_python_without_the_working_directory_too() -> None:
    found = [
        f"{path.relative_to(SOURCE)}: {line.strip()}"
        for path in sorted(SOURCE.rglob("*"))
        if path.suffix in {".sh", ".j2", ".service", ".yml"} and path.is_file()
        for line in path.read_text().splitlines()
        if re.search(r"(python[^ ]*|\$2\") -[cm] ", line)
    ]
    assert [each for each in found if not each.startswith(AT_BOOT)] == []


AT_BOOT = "providers/aws/boot/begin.sh"
"""Runs while a machine starts, in the root directory."""


def test_clustershell_is_imported_where_it_is_kept_from_a_users_configuration() -> None:
    module = "spec/cluster_shell.py"
    places = {
        (place, node.module)
        for place, tree in MODULES.items()
        for node in nodes(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ClusterShell")
    }
    assert {each for each in places if each[0] != module} == {("grid/nodes.py", "ClusterShell.Task")}
