"""This machine's Chromium, driven without a window."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from django.conf import settings
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
FLAGS: Final = (
    *("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
SIZES: Final = {"desktop": (1280, 900), "phone": (390, 844)}
SCREENSHOTS: Final = settings.BASE_DIR / "artifacts" / "screenshots"
PATIENCE_MS: Final = 40_000
"""A busy machine takes its time to show a page."""

LEFT: Final = ("htmx:sendAbort", "htmx:afterRequest")
"""What htmx writes as errors when a page is left while it asks; what truly fails adds a third name."""

Size = Literal["desktop", "phone"]
Scheme = Literal["light", "dark"]


class NoBrowser(Exception):
    """Chromium is not installed; the message says what to do."""


def find() -> str:
    """Where the browser is. Raises NoBrowser."""
    for name in NAMES:
        if found := shutil.which(name):
            return found
    raise NoBrowser("Chromium is not installed (Debian: apt-get install chromium)")


@contextlib.contextmanager
def running() -> Iterator[Browser]:
    """A browser for the length of a `with`."""
    # Its sandbox does not work for root.
    flags = [*FLAGS, *([] if os.getuid() else ["--no-sandbox"])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find(), args=flags)
        yield browser
        browser.close()


@dataclass
class Visitor:
    """A person with a browser of their own: no cookie is shared."""

    page: Page
    base_url: str
    size: Size
    complaints: list[str]
    """Errors that the pages' scripts met, or that the browser had with them."""

    def open(self, path: str) -> None:
        """Load a page."""
        self.page.goto(self.base_url + path)

    def log_in(self, user: str, password: str) -> None:
        """Fill in the login that is on the page."""
        self.page.get_by_label("User", exact=False).first.fill(user)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Log in").click()

    def photograph(self, name: str) -> Path:
        """Keep a picture of the whole page."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path: Path = SCREENSHOTS / f"{name}-{self.size}.png"
        # "initial": hiding the caret would need a style that the content security policy forbids.
        self.page.screenshot(path=path, full_page=True, caret="initial")
        return path

    def overflow(self) -> int:
        """Pixels that the page is wider than its window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


@contextlib.contextmanager
def visitor(browser: Browser, base_url: str, size: Size, scheme: Scheme) -> Iterator[Visitor]:
    """A visitor for the length of a `with`; what their browser complained of fails the test."""
    width, height = SIZES[size]
    context: BrowserContext = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, has_touch=size == "phone"
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    complaints: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error" and "favicon" not in message.text and not message.text.startswith(LEFT):
            complaints.append(message.text)

    def note_exception(error: Any) -> None:
        complaints.append(str(error))

    page.on("console", note)
    page.on("pageerror", note_exception)
    try:
        yield Visitor(page, base_url, size, complaints)
    finally:
        context.close()
