"""A headless Chromium for the tests of pages: the system's own, through Playwright.

Out: `page()`, and `why_not()`: why there is none. `python -m tests.inspect.browser` says which one is used.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def executable() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def why_not() -> str:
    """Why pages cannot be opened; "" where they can."""
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "Playwright is not installed (pip install playwright)"
    return "" if executable() else "no Chromium was found (apt install chromium)"


@contextmanager
def page(dark: bool = False, width: int = 1400, height: int = 1000) -> Iterator[tuple[Any, list[str]]]:
    """A page, and the list of what it complains of: console errors, exceptions, and requests for anything else."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=["--no-sandbox"])
        view = browser.new_page(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        complaints: list[str] = []
        view.on("console", lambda message: message.type == "error" and complaints.append(message.text))
        view.on("pageerror", lambda error: complaints.append(str(error)))
        view.on("request", lambda request: request.url.startswith("file:") or complaints.append(request.url))
        try:
            yield view, complaints
        finally:
            browser.close()


if __name__ == "__main__":
    reason = why_not()
    print(f"browser tests are left out: {reason}" if reason else f"browser tests: {executable()}")
