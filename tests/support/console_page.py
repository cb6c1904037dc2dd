"""The page of a console in a real browser, and what the browser had to say about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
]  # fmt: skip
Scheme = Literal["light", "dark"]
_PATIENCE_MS = 60_000


@dataclass
class ConsolePage:
    """An open page."""

    page: Any
    root: str
    """Its address without what is behind it."""
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def dismiss(self, dialog: Any) -> None:
        """No dialog may open; one that does is noted."""
        self.messages.append(f"a dialog opened: {dialog.message}")
        dialog.dismiss()

    def show(self, view: str) -> None:
        """Go to a view, such as `nodes?range=1d`, and wait until it has its figures."""
        self.page.goto(f"{self.root}/#/{view}")
        self.settle(view)

    def settle(self, view: str) -> None:
        """Wait until the page is at this view, and has the figures of its whole address."""
        self.page.wait_for_function(
            "view => location.hash.startsWith(`#/${view}`) && "
            "document.getElementById('main').dataset.ready === location.hash",
            arg=view,
            timeout=_PATIENCE_MS,
        )

    def fault(self) -> list[dict[str, Any]]:
        """What axe-core finds serious or worse."""
        if not self.page.evaluate("() => 'axe' in window"):
            # The page's policy lets in its own scripts alone; the debugger's way is not held to it.
            source = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text()
            self.page.evaluate(source)
        result = self.page.evaluate(
            "async () => { const {violations, passes} = await axe.run(document); "
            "return {violations, passes: passes.length}; }"
        )
        found = result["violations"]
        assert result["passes"] > 10, "axe looked at nothing"
        return [
            {
                "id": each["id"],
                "nodes": [node["html"][:200] + " " + node["failureSummary"] for node in each["nodes"][:4]],
            }
            for each in found
            if each["impact"] in {"serious", "critical"}
        ]


@contextmanager
def opened(
    browser: Any, url: str, *, width: int = 1280, height: int = 900, scheme: Scheme = "light"
) -> Iterator[ConsolePage]:
    """Open a console by the address that it prints."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page = context.new_page()
    found = ConsolePage(page, url.partition("/?")[0])
    page.on("console", lambda message: found.messages.append(message.text))
    page.on("pageerror", lambda error: found.messages.append(str(error)))
    page.on("dialog", found.dismiss)
    page.on("request", lambda request: found.requests.append(request.url))
    try:
        page.goto(url)
        page.wait_for_selector("main[data-ready]", timeout=_PATIENCE_MS)
        yield found
    finally:
        context.close()
