"""Looks at the site that `make docs` built: it needs no network, and its links lead somewhere.

python tools/site.py build/site
python tools/site.py build/site --search     # and its search finds where no server is; needs chromium
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

WORD, PAGE = "still-falling", "bad-result.html"
"""A word that the search must find, and a page that has it."""
LIMIT_MS = 15_000


class Page(HTMLParser):
    """What a page loads, where its links lead, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag names."""
        given = dict(attrs)
        self.anchors |= {name for key in ("id", "name") if (name := given.get(key))}
        if tag == "a" and (target := given.get("href")):
            self.links.append(target)
        elif target := given.get("src") or (given.get("href") if tag == "link" else None):
            self.loads.append(target)


def problems(site: Path) -> list[str]:
    """Things that a page loads from elsewhere, and links and anchors that are not there."""
    pages = {path: Page(path.read_text("utf-8")) for path in site.rglob("*.html")}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site)
        for target in [*page.loads, *page.links]:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                if target in page.loads and parts.scheme != "data":
                    found.append(f"{name} loads {target}")
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = pages[there].anchors if there in pages else None
            if not there.exists():
                found.append(f"{name}: there is no {target}")
            elif parts.fragment and anchors is not None and unquote(parts.fragment) not in anchors:
                found.append(f"{name}: {target} has no such anchor")
    for style in site.rglob("*.css"):
        if "url(http" in (text := style.read_text("utf-8")) or "@import" in text:
            found.append(f"{style.relative_to(site)} loads something from elsewhere")
    if not pages:
        found.append(f"{site} has no page")
    return sorted(set(found))


def search_problems(site: Path) -> list[str]:
    """Whether the search of the site finds a word where no server is, in a browser."""
    from playwright.sync_api import sync_playwright

    asked: list[str] = []
    with sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{(site / 'search.html').resolve().as_uri()}?q={WORD}")
        page.wait_for_selector("ul.search li a", timeout=LIMIT_MS)
        hits = [link.get_attribute("href") or "" for link in page.query_selector_all("ul.search li a")]
        browser.close()
    found = [f"the search asks for {url}" for url in asked if not url.startswith(("file:", "data:"))]
    if not any(hit.partition("?")[0].partition("#")[0] == PAGE for hit in hits):
        found.append(f"the search for {WORD} finds {hits}")
    return found


def main() -> int:
    """Print what is wrong with the site that the first argument names."""
    site = Path(sys.argv[1]).resolve()
    found = problems(site)
    if "--search" in sys.argv:
        found += search_problems(site)
    for each in found:
        print(f"error: {each}", file=sys.stderr)
    if not found:
        print(f"{len(list(site.rglob('*.html')))} pages: open {site / 'index.html'}")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
