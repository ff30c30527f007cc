"""A real Chromium for the tests of the chat page; screenshots go to `var/screenshots/`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.fakes.chat_server import ThreadedChatServer, chat_server_in_thread

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SCREENSHOTS = Path(__file__).parents[2] / "var" / "screenshots"
ARGUMENTS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
DESKTOP = (1280, 800)
PHONE = (390, 844)

OpenPage = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser per module: Playwright's loop runs in this thread until it is closed."""
    if CHROMIUM is None:
        words = "chromium is missing: the chat page is NOT tested (apt-get install chromium)"
        if os.environ.get("CI") == "true":
            pytest.fail(words)
        pytest.skip(words)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def chat() -> Iterator[ThreadedChatServer]:
    """A scripted server of its own for each test."""
    with chat_server_in_thread(pace_s=0.01) as server:
        yield server


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Open a page at a URL; any script error or content policy violation fails the test."""
    problems: list[str] = []
    contexts = []

    def open_at(
        url: str, *, size: tuple[int, int] = DESKTOP, scheme: str = "light", **options: object
    ) -> Page:
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme=scheme,
            has_touch=size == PHONE,
            is_mobile=size == PHONE,
            **options,
        )
        contexts.append(context)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: _note(problems, message.type, message.text))
        page.goto(url)
        return page

    yield open_at
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture
def screenshot() -> Callable[[Page, str], None]:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)

    def save(page: Page, name: str) -> None:
        page.screenshot(path=SCREENSHOTS / f"{name}.png")

    return save


def _note(problems: list[str], kind: str, text: str) -> None:
    # Sockets that are cut and sign-ins that are refused on purpose are reported as errors, too.
    is_expected = "WebSocket" in text or "Failed to load resource" in text
    if kind == "error" and not is_expected:
        problems.append(text)
