"""Makes the pictures of docs/console.md anew: a grid with trouble, clicked through in a real browser.

python -m tools.console_pictures docs/pictures
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.support.console_grid import steps_to_the_job, troubled
from tests.support.console_page import ARGUMENTS, CHROMIUM, opened
from tests.support.console_server import served
from tests.support.pretend_histories import END_S, PretendHistories

MOST_BYTES = 150_000
WIDTH, HEIGHT = 1100, 820


def main(directory: Path) -> int:
    """Write all pictures; 1 where one is too large."""
    from playwright.sync_api import sync_playwright

    directory.mkdir(exist_ok=True)
    with served(troubled(PretendHistories())) as console, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        with opened(browser, console.url, width=WIDTH, height=HEIGHT) as seen:
            for name, following in steps_to_the_job(seen):
                _frame(following)
                _write(seen.page, directory / f"console-{name}.png")
        away = troubled(PretendHistories(away={"compute3": END_S - 900}))
        with served(away) as other, opened(browser, other.url, width=400, height=900, scheme="dark") as seen:
            seen.show("nodes?range=1h&node=compute3")
            _write(seen.page, directory / "console-phone.png")
        browser.close()
    large = [each.name for each in directory.glob("console-*.png") if each.stat().st_size > MOST_BYTES]
    print("\n".join(f"{name} is too large" for name in large) or "all pictures are written")
    return 1 if large else 0


def _frame(element: Any) -> None:  # noqa: ANN401 - playwright's
    """Show what is clicked next."""
    element.evaluate(
        "each => { each.style.outline = '3px solid #c0281b'; each.style.outlineOffset = '3px';"
        " if (each.getBoundingClientRect().bottom > innerHeight) each.scrollIntoView({block: 'center'}); }"
    )


def _write(page: Any, path: Path) -> None:  # noqa: ANN401 - playwright's
    page.mouse.move(0, 0)
    page.screenshot(path=path)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/pictures")))
