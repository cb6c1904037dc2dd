"""Stacks on this machine, by the real terraform: `terraform_data` is built in, and nothing is downloaded."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gridwright.errors import GridwrightError
from gridwright.providers.oci.deploy import LocalStack, LocalTerraform, StackFiles, TerraformCommand
from gridwright.providers.oci.resource_manager import managed, outputs, unprotected
from gridwright.providers.oci.up import planned_changes
from gridwright.providers.provider import Caller

NAME = "gridwright-demo-storage"
pytestmark = pytest.mark.skipif(shutil.which("terraform") is None, reason="terraform is not on this machine")


def root(**resources: dict[str, Any]) -> dict[str, bytes]:
    """A root of such resources, with the input of the first one as its output."""
    first = next(iter(resources))
    parts = {
        "resource": {"terraform_data": resources},
        "output": {"told": {"value": {"a": f"${{terraform_data.{first}.output}}"}}},
    }
    return {"main.tf.json": json.dumps(parts).encode()}


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def local(tmp_path: Path, said: list[str]) -> LocalTerraform:
    return deployer(tmp_path, Caller(said.append))


def deployer(directory: Path, caller: Caller) -> LocalTerraform:
    return LocalTerraform(TerraformCommand("terraform", caller, poll_s=0.02), StackFiles(directory / "kept"))


def bring(local: LocalTerraform, files: dict[str, bytes]) -> LocalStack:
    stack = local.put(local.find(NAME), NAME, files, {}, {})
    plan, _ = local.plan(stack)
    local.apply(stack, plan)
    return stack


def test_a_stack_is_made_changed_looked_at_and_removed(local: LocalTerraform) -> None:
    with local.held():
        assert local.find(NAME) is None
        stack = local.put(None, NAME, root(one={"input": "x"}) | {"old.txt": b"old"}, {}, {})
        plan, shown = local.plan(stack)
        (change,) = planned_changes(NAME, shown)
        assert (change.verb, change.address, plan.changes) == ("make", "terraform_data.one", 1)
        assert not managed(local.state(stack))
        local.apply(stack, plan)
        assert outputs(local.state(stack)) == {"told": {"a": "x"}}
        assert local.drift(stack) == ()

        again = local.put(local.find(NAME), NAME, root(one={"input": "x"}), {}, {})
        assert planned_changes(NAME, local.plan(again)[1]) == ()
        assert not (stack.directory / "old.txt").exists()
        local.destroy(again)
    assert local.find(NAME) is None
    assert not local.files.directory.exists()


def test_the_plan_that_was_shown_is_applied_or_none(local: LocalTerraform) -> None:
    with local.held():
        stack = bring(local, root(one={"input": "x"}))
        local.put(stack, NAME, root(one={"input": "y"}), {}, {})
        plan, _ = local.plan(stack)
        # Somebody else applies something in between.
        shutil.copy(stack.directory / plan.file, stack.directory / "mine")
        local.apply(stack, plan)
        (stack.directory / "mine").replace(stack.directory / plan.file)
        with pytest.raises(GridwrightError, match="stale") as raised:
            local.apply(stack, plan)
    assert "read its plan" in str(raised.value)


def test_what_holds_data_is_protected_by_terraform_itself(local: LocalTerraform) -> None:
    def volume(size: int) -> dict[str, bytes]:
        return root(one={"triggers_replace": size, "lifecycle": {"prevent_destroy": True}})

    with local.held():
        stack = bring(local, volume(1))
        local.put(stack, NAME, volume(2), {}, {})
        with pytest.raises(GridwrightError, match="Instance cannot be destroyed") as raised:
            local.plan(stack)
        assert "--replace" in str(raised.value)
        with pytest.raises(GridwrightError, match="cannot be destroyed"):
            local.destroy(stack)
        assert len(managed(local.state(stack))) == 1
        local.put(stack, NAME, unprotected(volume(2), "main.tf.json"), {}, {})
        assert [each.verb for each in planned_changes(NAME, local.plan(stack)[1])] == ["make anew"]
        local.destroy(stack)


def test_an_apply_that_fails_names_its_resource_and_is_gone_on_with(local: LocalTerraform) -> None:
    def files(command: str) -> dict[str, bytes]:
        return root(
            one={"input": "x"},
            two={
                "input": "${terraform_data.one.id}",
                "provisioner": {"local-exec": {"command": command}},
            },
        )

    with local.held():
        stack = local.put(None, NAME, files("echo QuotaExceeded; exit 3"), {}, {})
        plan, _ = local.plan(stack)
        with pytest.raises(GridwrightError, match=r"terraform_data\.two") as raised:
            local.apply(stack, plan)
        assert "ask for a higher limit" in str(raised.value)
        assert str(stack.directory / "apply.log") in str(raised.value)
        local.put(stack, NAME, files("true"), {}, {})
        plan, shown = local.plan(stack)
        # What failed is made anew; what was made stays.
        assert [each.address for each in planned_changes(NAME, shown)] == ["terraform_data.two"]
        local.apply(stack, plan)


def test_an_order_to_stop_lets_terraform_end_what_it_has_begun(tmp_path: Path) -> None:
    caller = Caller()
    local = deployer(tmp_path, caller)
    begun, may_end = tmp_path / "begun", tmp_path / "may-end"
    # The first one waits for the order to stop to be given; the second one needs the first.
    slow = f"touch {begun}; until [ -e {may_end} ]; do sleep 0.05; done"
    files = root(
        one={"input": "x", "provisioner": {"local-exec": {"command": slow}}},
        two={"input": "${terraform_data.one.id}"},
    )

    def order() -> None:
        _wait_until(begun.exists)
        caller.stop.set()
        stopping.wait(0.5)
        may_end.touch()

    stopping = threading.Event()
    thread = threading.Thread(target=order)
    with local.held():
        stack = local.put(None, NAME, files, {}, {})
        plan, _ = local.plan(stack)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            local.apply(stack, plan)
        thread.join()
        assert [each["name"] for each in managed(local.state(stack))] == ["one"]
        caller.stop.clear()
        stack = bring(local, files)
        assert {each["name"] for each in managed(local.state(stack))} == {"one", "two"}


def test_a_backend_of_the_sites_own_is_shared_by_two_machines(local: LocalTerraform, tmp_path: Path) -> None:
    backend = f'terraform {{\n  backend "local" {{\n    path = "{tmp_path}/shared.tfstate"\n  }}\n}}\n'
    other = deployer(tmp_path / "other", Caller())
    for each in (local, other):
        each.files.of(NAME).mkdir(parents=True)
        (each.files.of(NAME) / "backend.tf").write_text(backend, encoding="utf-8")
    assert local.find(NAME) is None
    with local.held():
        stack = bring(local, root(one={"input": "x"}))
        assert not (stack.directory / "terraform.tfstate").exists()
    with other.held():
        found = other.find(NAME)
        assert found is not None
        assert outputs(other.state(found)) == {"told": {"a": "x"}}
        other.put(found, NAME, root(one={"input": "x"}), {}, {})
        assert planned_changes(NAME, other.plan(found)[1]) == ()
        other.destroy(found)
    assert (other.files.of(NAME) / "backend.tf").exists()
    assert sorted(each.name for each in other.files.of(NAME).iterdir()) == ["backend.tf"]


def test_two_do_not_change_a_grid_at_once(local: LocalTerraform, tmp_path: Path) -> None:
    other = deployer(tmp_path, Caller())
    with local.held(), pytest.raises(GridwrightError, match="changes this grid just now"), other.held():
        pass
    with other.held():
        assert other.find(NAME) is None


def test_a_tool_that_outlives_gridwright_keeps_the_lock(local: LocalTerraform, tmp_path: Path) -> None:
    pid, may_end = tmp_path / "pid", tmp_path / "may-end"
    slow = f"echo $PPID > {pid}.new && mv {pid}.new {pid}; until [ -e {may_end} ]; do sleep 0.05; done"
    files = root(one={"input": "x", "provisioner": {"local-exec": {"command": slow}}})
    with local.held():
        stack = local.put(None, NAME, files, {}, {})
        plan, _ = local.plan(stack)
    child = os.fork()
    if child == 0:
        # A gridwright that is killed while terraform applies.
        with local.held():
            local.apply(stack, plan)
        os._exit(0)
    _wait_until(pid.exists)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    other = deployer(tmp_path, Caller())
    with pytest.raises(GridwrightError, match="changes this grid just now"), other.held():
        pass
    may_end.touch()
    _wait_until(lambda: _is_free(other))
    assert [each["name"] for each in managed(other.state(stack))] == ["one"]


def _wait_until(is_so: Callable[[], bool]) -> None:
    for _ in range(1000):
        if is_so():
            return
        threading.Event().wait(0.02)
    raise AssertionError("it has not come to be")


def _is_free(local: LocalTerraform) -> bool:
    try:
        with local.held():
            return True
    except GridwrightError:
        return False


def test_a_missing_and_an_old_tool_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GridwrightError, match="tofu-of-nobody is not on this machine"):
        LocalTerraform(TerraformCommand("tofu-of-nobody", Caller()), StackFiles(tmp_path))
    old = tmp_path / "tofu"
    old.write_text('#!/bin/sh\necho \'{"terraform_version": "1.4.9-rc1"}\'\n', encoding="utf-8")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(GridwrightError, match=r"tofu 1\.4\.9 is too old") as raised:
        LocalTerraform(TerraformCommand("tofu", Caller()), StackFiles(tmp_path))
    assert "1.5.0" in str(raised.value)
    old.write_text("#!/bin/sh\necho hello\n", encoding="utf-8")
    with pytest.raises(GridwrightError, match="does not say its version"):
        LocalTerraform(TerraformCommand("tofu", Caller()), StackFiles(tmp_path))


def test_settings_that_change_what_a_command_does_are_not_passed_on(
    local: LocalTerraform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_CLI_ARGS_plan", "-destroy")
    monkeypatch.setenv("TF_WORKSPACE", "other")
    with local.held():
        stack = bring(local, root(one={"input": "x"}))
        assert outputs(local.state(stack)) == {"told": {"a": "x"}}
        local.put(stack, NAME, root(one={"input": "x"}), {}, {})
        assert planned_changes(NAME, local.plan(stack)[1]) == ()


def test_a_lock_of_terraform_s_own_is_told_with_its_way_out(local: LocalTerraform) -> None:
    import fcntl

    with local.held():
        stack = bring(local, root(one={"input": "x"}))
        with (stack.directory / "terraform.tfstate").open("r+b") as state:
            fcntl.lockf(state, fcntl.LOCK_EX)
            with pytest.raises(GridwrightError, match="state lock") as raised:
                local.command.run(stack.directory, ("plan", "-input=false", "-json"), timeout_s=60, what=NAME)
    assert "force-unlock" in str(raised.value)
