"""The import rule of docs/architecture.md, and the sizes that keep the house readable."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.source_names import MODULES, SOURCE, nodes

MAY_IMPORT: dict[str, frozenset[str]] = {
    "units": frozenset(),
    "beneath": frozenset(),
    "trusted": frozenset({"beneath", "errors"}),
    "refusals": frozenset({"trusted"}),
    "atomic": frozenset({"beneath", "trusted"}),
    "state_parts": frozenset({"trusted", "errors"}),
    "errors": frozenset(),
    "machine": frozenset(),
    "own_directories": frozenset({"beneath", "trusted", "errors"}),
    "bounded": frozenset(),
    "messages": frozenset(),
    "kernel_files": frozenset(),
    "foreign_text": frozenset(),
    "handed_files": frozenset({"errors"}),
    "endpoints": frozenset(),
    "secret_text": frozenset(),
    "commands": frozenset({"errors"}),
    "yamltext": frozenset(),
    "spec": frozenset({"yamltext"}),
    "catalog": frozenset({"yamltext"}),
    "services": frozenset(),
    "filesystems": frozenset({"yamltext", "spec", "catalog", "services", "_native"}),
    "model": frozenset({"spec", "catalog", "filesystems", "runs", "_native"}),
    "plan": frozenset({"spec", "catalog", "filesystems", "model"}),
    "node_programs": frozenset(),
    "setup": frozenset({"spec", "services", "filesystems", "schedulers", "node_programs"}),
    "doctor": frozenset({"spec", "catalog", "filesystems", "schedulers", "setup", "grid"}),
    "schedulers": frozenset({"yamltext", "spec", "services", "node_programs"}),
    "grid": frozenset({"yamltext", "spec", "schedulers", "providers", "services"}),
    "runs": frozenset({"spec"}),
    "interference": frozenset({"runs", "_native"}),
    "iotest": frozenset({"spec", "interference", "filesystems", "grid", "runs", "services", "_native"}),
    "workload": frozenset({"yamltext", "spec", "interference", "filesystems", "grid", "schedulers", "runs"}),
    "layouts": frozenset({"spec", "filesystems"}),
    "repository": frozenset({"_native"}),
    "monitor": frozenset(
        {"spec", "interference", "services", "filesystems", "grid", "model", "report", "runs", "_native"}
    ),
    "watch": frozenset({"spec", "doctor", "schedulers"}),
    "prove": frozenset({"spec", "doctor", "iotest", "workload", "runs", "report"}),
    "report": frozenset({"filesystems", "runs", "model", "plan"}),
    "providers": frozenset(
        {
            *("yamltext", "spec", "catalog", "filesystems", "model", "setup", "node_programs"),
            *("schedulers", "services", "report", "repository"),
        }
    ),
}
"""Every room also imports the single modules in FOR_ALL; cli all, and api, which hands on names of rooms."""
FOR_ALL = frozenset(
    {
        *("units", "errors", "machine", "bounded", "commands", "messages", "kernel_files", "__init__"),
        *("beneath", "trusted", "atomic", "state_parts", "foreign_text", "handed_files", "own_directories"),
        *("endpoints", "refusals", "secret_text"),
    }
)

LONGEST_FUNCTION = 60
LONGEST_FILE = 800
FORBIDDEN_NAMES = frozenset({"utils", "util", "helpers", "helper", "common", "manager", "misc"})


def room(module: str) -> str:
    return module.partition("/")[0].removesuffix(".py")


def imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every import of a module, wherever it stands."""
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import hides its room"
            for alias in node.names:
                # `from gridwright import x` names a room, a module or a name of the package.
                yield node.lineno, f"{node.module}.{alias.name}"


@functools.cache
def room_edges() -> list[tuple[str, str, str]]:
    """Place, room, and the other room it imports."""
    return list(_room_edges())


def _room_edges() -> Iterator[tuple[str, str, str]]:
    for module, tree in MODULES.items():
        for line, name in imported(tree):
            parts = name.split(".")
            if parts[0] != "gridwright":
                continue
            named = parts[1] if len(parts) > 1 else "__init__"
            is_room = (SOURCE / named).is_dir() or (SOURCE / f"{named}.py").is_file() or named == "_native"
            other = named if is_room else "__init__"
            if other != room(module):
                yield f"{module}:{line}", room(module), other


def test_there_is_something_to_check() -> None:
    assert len(MODULES) > 30
    assert len(room_edges()) > 60


def test_every_room_is_in_the_table() -> None:
    found = {room(module) for module in MODULES} - {"cli", "api", "__init__"}
    assert found <= set(MAY_IMPORT), f"rooms that the table does not know: {found - set(MAY_IMPORT)}"


def test_the_table_allows_nothing_that_nobody_needs() -> None:
    used = {(here, other) for _, here, other in room_edges()}
    allowed = {(here, other) for here, others in MAY_IMPORT.items() for other in others}
    assert allowed - used == set()


def test_rooms_import_only_what_the_table_allows() -> None:
    wrong = [
        f"{place}: {here} must not import {other}"
        for place, here, other in room_edges()
        if here not in {"cli", "api"} and other not in MAY_IMPORT[here] | FOR_ALL
    ]
    assert wrong == []


def test_what_every_room_imports_imports_no_room() -> None:
    assert [edge for edge in room_edges() if edge[1] in {"units", "errors", "machine"}] == []


def test_the_table_has_no_cycle() -> None:
    left = dict(MAY_IMPORT)
    while left:
        free = [name for name, imports in left.items() if not imports & left.keys()]
        assert free, f"these import each other: {sorted(left)}"
        for name in free:
            del left[name]


def test_one_module_imports_the_native_part() -> None:
    importers = {place.split(":")[0] for place, _, other in room_edges() if other == "_native"}
    assert importers == {
        "interference/processes.py",
        "filesystems/lustre_client/attribute.py",
        "filesystems/lustre_client/counters.py",
        "filesystems/lustre_client/served.py",
        "monitor/job_sources.py",
        "monitor/sampler.py",
        "iotest/engine.py",
        "model/simulate.py",
        "model/chains.py",
        "repository/store.py",
        "repository/publishing.py",
        "repository/s3/plain.py",
        "repository/walking.py",
    }


def long_functions() -> Iterator[str]:
    for module, tree in MODULES.items():
        for node in nodes(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > LONGEST_FUNCTION:
                    yield f"{module}:{node.lineno}: {node.name} has {lines} lines"


def test_no_function_is_long() -> None:
    assert list(long_functions()) == []


def test_no_file_is_long() -> None:
    lengths = {name: len((SOURCE / name).read_text().splitlines()) for name in MODULES}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FILE} == {}


def test_no_file_is_a_drawer_for_everything() -> None:
    assert [m for m in MODULES if FORBIDDEN_NAMES & {*m.removesuffix(".py").split("/")}] == []


def test_every_module_says_what_it_is_for() -> None:
    assert [module for module, tree in MODULES.items() if not ast.get_docstring(tree)] == []


def test_a_program_starts_at_its_end() -> None:
    """What is defined after `if __name__ == "__main__"` is not there yet when the program runs."""
    programs = [
        module
        for module, tree in MODULES.items()
        for node in tree.body[:-1]
        if isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"
    ]
    assert programs == []


def import_graph() -> dict[str, set[str]]:
    """What each module imports, at its beginning or later, and what it imports for types alone."""
    names = {
        f"gridwright/{path}".removesuffix(".py").removesuffix("/__init__").replace("/", "."): tree
        for path, tree in MODULES.items()
    }
    graph = {}
    for name, tree in names.items():
        found = {full if full in names else full.rpartition(".")[0] for _, full in imported(tree)}
        graph[name] = (found & names.keys()) - {name}
    return graph


def test_no_files_import_each_other() -> None:
    left = import_graph()
    while left:
        free = [name for name, imports in left.items() if not imports & left.keys()]
        assert free, f"a circle is among these: {in_a_circle(left)}"
        for name in free:
            del left[name]


def in_a_circle(graph: dict[str, set[str]]) -> list[str]:
    """One circle of a graph in which every module imports another one of it."""
    path = [sorted(graph)[0]]
    while (following := sorted(graph[path[-1]] & graph.keys())[0]) not in path:
        path.append(following)
    return path[path.index(following) :]


SHIPPED = (
    *("node_programs/scratch/", "node_programs/health/", "node_programs/users/", "node_programs/drain.py"),
    *("providers/aws/claim/", "providers/aws/boot/", "providers/aws/roll/"),
    *("providers/boot/", "providers/oci/boot/"),
    # Ansible asks each file of filters for a class of this name.
    "filesystems/lustre_client/roles/lustre_client/filter_plugins/gridwright_layouts.py",
    "filesystems/lustre_client/roles/",
)
"""Programs of their own that nodes run without Gridwright: each has its own names."""


def test_a_name_of_a_class_stands_for_one_thing() -> None:
    places: dict[tuple[str, str], list[str]] = {}
    for where, tree in MODULES.items():
        program = next((each for each in SHIPPED if where.startswith(each)), "")
        for node in nodes(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault((program, node.name), []).append(where)
    assert len(places) > 400
    assert {name: found for (_, name), found in places.items() if len(found) > 1} == {}


def test_what_listens_on_the_network_passes_one_rule() -> None:
    """`services.connections.listen_on` counts who connects."""
    listening = {
        module
        for module, tree in MODULES.items()
        for node in nodes(tree)
        if (isinstance(node, ast.Attribute) and node.attr in {"create_server", "start_server", "HTTPServer"})
        or (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "listen"
            and node.args
        )
    }
    # A job's own socket of this machine lets in its user alone (SO_PEERCRED).
    assert listening - {"providers/lab/boot.py"} == {
        "services/connections.py",
        "workload/node_jobs/launch.py",
    }


def test_commands_load_a_spec_in_one_way() -> None:
    """`cli.spec_file.load` refuses one that others could have written, and remembers how it was named."""
    loading = {
        module
        for module, tree in MODULES.items()
        for _, name in imported(tree)
        if name.startswith("gridwright.spec") and name.endswith(".load_spec")
    }
    # `--out` says what a file is that is there already; a lab asks whether its spec still names it.
    assert loading == {
        "cli/spec_file.py",
        "cli/output.py",
        "providers/lab/record.py",
        "spec/__init__.py",
    }


def test_errors_of_schedulers_say_what_to_do() -> None:
    makers = {"environment_error", "input_error", "Problem"}
    lacking = [
        f"{module}:{node.lineno}"
        for module, tree in MODULES.items()
        if module.startswith("schedulers/")
        for node in nodes(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in makers
        and not any(each.arg in ("remedy", None) for each in node.keywords)
    ]
    assert lacking == []


def named_files(text: str) -> Iterator[Path]:
    """Paths in the package that a text names; a bare name is beside the one before it."""
    beside = SOURCE
    for name in re.findall(r"`([a-z0-9_/]+(?:\.py|/))`", text):
        if name.startswith("native/"):
            continue
        path = SOURCE / name if "/" in name else beside / name
        beside = path if name.endswith("/") else path.parent
        yield path


def test_the_ways_of_the_map_name_files_that_exist() -> None:
    text = (SOURCE.parents[1] / "docs" / "architecture.md").read_text()
    ways = text[text.index("## Five ways") : text.index("## Dependencies")]
    found = list(named_files(ways))
    assert len(found) > 40
    assert [each.relative_to(SOURCE).as_posix() for each in found if not each.exists()] == []


def test_the_rooms_of_the_map_have_the_files_that_it_names() -> None:
    text = (SOURCE.parents[1] / "docs" / "architecture.md").read_text()
    rows = [line for line in text.splitlines() if re.match(r"\| `[a-z_]+/` \|", line)]
    assert len(rows) > 15
    lacking = []
    for row in rows:
        room, *names = re.findall(r"`([a-z0-9_/]+(?:\.py|/))`", row)
        lacking += [
            f"{room}{name}"
            for name in names
            if not ((SOURCE / name).exists() or list((SOURCE / room).rglob(name.rstrip("/"))))
        ]
    assert lacking == []


STARTERS = {
    "commands.py": "the one runner: a limit of time and of output",
    # Conversations and daemons, which outlast one answer.
    "doctor/probes/pairs.py": "orders and answers of a probe",
    "filesystems/scale/mmpmon.py": "mmpmon answers as long as it runs",
    "grid/launching.py": "a program on each node, ended by who began it",
    "interference/presence.py": "the heartbeat of a run",
    "monitor/exporter/server.py": "makes pages until it is silent",
    "monitor/history/grid_histories.py": "sessions with the histories of nodes",
    "monitor/streams.py": "samples of nodes, as they come",
    "runs/worker_process.py": "the worker of a test, and its events",
    "schedulers/local/launcher.py": "starts jobs beside the runner",
    "schedulers/local/runner_lock.py": "the runner of local jobs, which outlives the command",
    "schedulers/ssh_head.py": "a connection that commands share",
    "setup/running.py": "Ansible, whose output is a log and whose remains are ended",
    "workload/data_set.py": "tells of its progress",
    "workload/prepare.py": "writers that take one task after the other",
    "workload/launches/guard.py": "launches, with all that they start",
    "providers/lab/image.py": "debootstrap, whose output is a log",
    "providers/lab/teardown.py": "outlives the command",
    "providers/oci/deploy.py": "tells of its progress",
    "iotest/recorded.py": "is left behind where its disk hangs",
    # Programs that run where Gridwright is not installed, of Python 3.9 alone.
    "filesystems/lustre/roles/lustre_changelog/library/lustre_changelog_users.py": "shipped",
    "filesystems/scale/administration/command.py": "shipped",
    "node_programs/scratch/commands.py": "shipped",
    "node_programs/users/machine.py": "shipped",
    "node_programs/users/services.py": "shipped",
    "providers/aws/disk_names.py": "shipped",
    "providers/boot/fetch.py": "shipped",
    "providers/boot/roles/lustre_server/files/lustre_health.py": "shipped",
    "providers/boot/system_packages.py": "shipped",
    "providers/oci/boot/instance_principal.py": "shipped",
    "providers/oci/cards.py": "shipped",
    "providers/oci/volumes.py": "shipped",
    # The user's own terminal.
    "grid/grid.py": "a shell on a node",
}
"""Modules that start processes, each in one way, and why they do not call `commands.run_bounded`."""
SHIPPED_ROOTS = (
    "node_programs/",
    "providers/",
    "filesystems/lustre/roles/",
    "filesystems/scale/administration/",
)
STARTING = frozenset(
    {"Popen", "run", "call", "check_call", "check_output", "getoutput", "create_subprocess_exec"}
)


def starts(tree: ast.Module) -> int:
    """How many calls of a module start a process."""
    return sum(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in STARTING
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in {"subprocess", "asyncio"}
        and (node.func.value.id == "subprocess" or node.func.attr.startswith("create_subprocess"))
        for node in nodes(tree)
    )


def test_processes_are_started_by_one_runner_and_named_exceptions() -> None:
    places = {module: count for module, tree in MODULES.items() if (count := starts(tree))}
    assert places.keys() == STARTERS.keys()
    assert {module for module, count in places.items() if count > 1} <= {"providers/boot/fetch.py"}
    shipped = {module for module, why in STARTERS.items() if why == "shipped"}
    assert [module for module in shipped if not module.startswith(SHIPPED_ROOTS)] == []


def test_a_second_way_to_start_a_process_is_seen() -> None:
    text = "subprocess.run(['a'])\nasyncio.create_subprocess_exec('a')\nasyncio.run(b)"
    assert starts(ast.parse(text)) == 2


OF_ONE_IMPORTER = {
    "cli/": "the words of one verb, loaded when it is called",
    "node_programs/": "a part of a program that nodes run without Gridwright",
    "_program.py": "a process of its own",
    "builtin.py": "names the kinds, which the registry must not import",
    "rates.py": "loaded where rates are asked for, as reading a spec needs no catalogue",
    "doctor/checks/": "checks of one subject, which the registry collects",
}
"""Beginnings or ends of modules that one neighbour alone imports, and why they are modules."""
YET_TO_MERGE = 35
"""Others: pages of a chapter. This number only falls."""


def of_one_importer() -> list[str]:
    """Modules that one module alone imports, which lies beside them."""
    names = {f"gridwright.{name.removesuffix('.py').replace('/', '.')}": name for name in MODULES}
    importers: dict[str, set[str]] = {}
    for module, tree in MODULES.items():
        for _, name in imported(tree):
            target = names.get(name) or names.get(name.rpartition(".")[0])
            if target is not None:
                importers.setdefault(target, set()).add(module)
    return [
        target
        for target, modules in importers.items()
        if len(modules) == 1 and Path(next(iter(modules))).parent == Path(target).parent
    ]


def test_a_module_that_one_neighbour_alone_imports_has_a_reason() -> None:
    alone = of_one_importer()
    reasons = tuple(OF_ONE_IMPORTER)
    others = sorted(name for name in alone if not (name.startswith(reasons) or name.endswith(reasons)))
    assert len(others) <= YET_TO_MERGE, "\n".join(others)
    assert [
        each for each in reasons if not any(name.startswith(each) or name.endswith(each) for name in alone)
    ] == []


PRINTS_TABLES = "report/terminal/frame.py"
"""The one module that makes a table of rich out of a table of `report/table.py`."""
LIVE_TABLE = "monitor/live.py"
"""Fills the table of a Textual screen, whose rows stay while the view goes on."""


def table_builders(tree: ast.Module) -> list[str]:
    """What of a module is a model of a table beside that of `report/table.py`, or fills one row by row."""
    found = []
    for node in nodes(tree):
        if isinstance(node, ast.ClassDef):
            fields = {
                each.target.id
                for each in node.body
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
            }
            found += [node.name] if {"columns", "rows"} <= fields else []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            found += [node.func.attr] if node.func.attr in {"add_row", "add_column", "add_columns"} else []
    return [*found, *(name for _, name in imported(tree) if name == "rich.table.Table")]


def test_there_is_one_model_of_a_table_and_one_builder_of_each_kind() -> None:
    builders = {module: found for module, tree in MODULES.items() if (found := table_builders(tree))}
    assert builders.pop("report/table.py") == ["Table"]
    assert builders.keys() == {PRINTS_TABLES, LIVE_TABLE}


def test_a_second_table_is_seen() -> None:
    text = "from rich.table import Table\nclass View:\n    columns: int\n    rows: int\ntable.add_row()"
    assert sorted(table_builders(ast.parse(text))) == ["View", "add_row", "rich.table.Table"]
