"""A callback of Ansible that writes what happens on each node as lines of JSON, for `gridwright setup`.

It stands outside of the rendered playbook: only setup enables it, and names the file in GRIDWRIGHT_REPORT.
"""
# ruff: noqa: ANN401 - Ansible has no types

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from ansible.plugins.callback import CallbackBase  # type: ignore[import-untyped]

DOCUMENTATION = """
name: gridwright_report
type: aggregate
short_description: writes what happens on each node as lines of JSON
description:
  - Used by gridwright setup.
options: {}
"""
_LONGEST = 20_000
"""Characters kept of a message or of one side of a difference."""


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """See Ansible's documentation of callback plugins for when each method is called."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gridwright_report"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # Open as long as the play runs: each line is flushed as it is written.
        self._file = open(os.environ["GRIDWRIGHT_REPORT"], "a", encoding="utf-8")  # noqa: PTH123, SIM115

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        """Note which task the nodes are in."""
        self._write({"event": "start", "task": str(task.get_name())})

    def v2_runner_on_ok(self, result: Any) -> None:
        """Note a change, or what was skipped and why."""
        self._note(result, whole_task=True)

    def v2_runner_item_on_ok(self, result: Any) -> None:
        """Note a change of one item of a loop."""
        self._note(result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Note a failure that stops the node."""
        found = _content(result)
        if not ignore_errors and "results" not in found:
            self._fail("failed", result, found)

    def v2_runner_item_on_failed(self, result: Any) -> None:
        """Note a failure of one item of a loop."""
        if not getattr(_task(result), "ignore_errors", False):
            self._fail("failed", result, _content(result))

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Note a node that cannot be reached."""
        self._fail("unreachable", result, _content(result))

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Note how the nodes came out."""
        self._write({"event": "end", "nodes": {name: stats.summarize(name) for name in stats.processed}})

    def _note(self, result: Any, *, whole_task: bool = False) -> None:
        found = _content(result)
        if whole_task and "results" in found:
            return
        item = found.get("item")
        if isinstance(item, Mapping) and "skipped" in item:
            self._write({"event": "skipped", "node": _host(result), **_plain(item)})
        elif found.get("changed"):
            drift = _plain(item) if isinstance(item, Mapping) and "wanted" in item else {}
            shown = _differences(found)
            asked = {**getattr(_task(result), "args", {}), **found}
            named = (str(asked[key]) for key in ("dest", "path") if asked.get(key))
            where = next((each for each in named if "{{" not in each), "")
            line = {"event": "changed", "node": _host(result), "task": _name(result), "where": where}
            self._write({**line, **drift, "differences": list(shown)})

    def _fail(self, event: str, result: Any, found: Mapping[str, Any]) -> None:
        said = [str(found[key]).strip() for key in ("msg", "stderr", "module_stderr") if found.get(key)]
        message = "\n".join(dict.fromkeys(said))[:_LONGEST] or "it says no reason"
        self._write({"event": event, "node": _host(result), "task": _name(result), "message": message})

    def _write(self, line: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(line, default=str) + "\n")
        self._file.flush()


def _content(result: Any) -> Mapping[str, Any]:
    """What a task gave; ansible-core 2.19 renamed it."""
    found = getattr(result, "result", None)
    return found if isinstance(found, Mapping) else result._result


def _task(result: Any) -> Any:
    return getattr(result, "task", None) or result._task


def _name(result: Any) -> str:
    return str(_task(result).get_name())


def _host(result: Any) -> str:
    host = getattr(result, "host", None) or result._host
    return str(host.get_name())


def _plain(item: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): str(value) for key, value in item.items()}


def _differences(found: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Before and after of files, where --diff asked for them."""
    diff = found.get("diff") or []
    for each in diff if isinstance(diff, list) else [diff]:
        if isinstance(each, Mapping) and ("before" in each or "after" in each):
            yield {side: _side(each.get(side)) for side in ("before", "after")}


def _side(value: Any) -> str:
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value, default=str)
    return text[:_LONGEST]
