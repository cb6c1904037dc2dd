"""Fixtures of all tests, what may be skipped, and how thorough the property tests are."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from gridwright.cli.start import YOUNG
from gridwright.repository.state_directory import VARIABLE
from tests.support import examples, shared_lab, skips
from tests.support.command import Command


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--thorough", action="store_true", help="run the tests marked thorough too, and many more examples"
    )


def pytest_configure(config: pytest.Config) -> None:
    # Tests run side by side, and disturb each other; those about that say otherwise.
    os.environ.setdefault("GRIDWRIGHT_ALLOW_DISTURBED", "1")
    # Tests say which images there are; moto would make its own each time that it is emptied.
    os.environ["MOTO_EC2_LOAD_DEFAULT_AMIS"] = "false"
    if config.getoption("--thorough"):
        # Every command as users start it; else only those that are started with a prefix or other settings.
        os.environ["GRIDWRIGHT_TESTS_START"] = "1"
    examples.register()
    hypothesis.settings.load_profile("thorough" if config.getoption("--thorough") else "quick")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only `make test-thorough` runs; tests that are named one by one run in any case."""
    if config.getoption("--thorough") or any("::" in each for each in config.args):
        return
    quick = [item for item in items if not item.get_closest_marker("thorough")]
    kept = {id(item) for item in _few_cases(quick)}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = [item for item in items if id(item) in kept]


def _few_cases(items: list[pytest.Item]) -> list[pytest.Item]:
    """Of each test that is marked `few`, so many cases, from the first to the last of them; all others."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = []
    for each in cases.values():
        few = each[0].get_closest_marker("few")
        count = min(few.args[0], len(each)) if few else len(each)
        kept += [each[place * (len(each) - 1) // max(1, count - 1)] for place in range(count)]
    return kept


def pytest_collection_finish() -> None:
    """Let no look for cycles go through all that was imported, here or in a fork, which would copy it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("root") and os.geteuid() != 0:
        pytest.skip(skips.NOT_AS_ROOT)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run where a lab is left, or a test was skipped for a reason that is not allowed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    # The directory of a run: workers of pytest-xdist have theirs below it.
    directory = session.config._tmp_path_factory.getbasetemp() / shared_lab.DIRECTORY  # type: ignore[attr-defined]
    wrong = [f"may not be skipped: {each}" for each in skips.unlawful(reporter.stats.get("skipped", []))]
    try:
        shared_lab.wait_until_gone(directory)
    except TimeoutError as error:
        wrong.append(str(error))
    for each in wrong:
        reporter.write_line(each, red=True)
    if wrong and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session", autouse=True)
def repository_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where tests keep what is known of repositories, which for root is on the machine."""
    place = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(place))
        yield place


@pytest.fixture
def gridwright(tmp_path: Path) -> Command:
    """The command, with its runs in `tmp_path/runs`."""
    return Command(tmp_path)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """An empty directory to test."""
    directory = tmp_path / "library"
    directory.mkdir()
    return directory
