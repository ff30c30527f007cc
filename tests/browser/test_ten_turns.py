"""A conversation of ten turns with the offline model, as a reader of the store has it, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import PHONE, OpenPage

SIGNED = re.compile("Written by the offline model")
TURNS: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = [
    # what is said, what the answer holds, which sources stand below it
    ("Hello!", ("Hello!", "choose series"), ()),
    (
        "Recommend a series like Berserk",
        ("If you like Berserk", "Claymore", "(mature)"),
        ("Claymore",),
    ),
    ("How many volumes does the first one have?", ("volumes: 28",), ("D.Gray-man",)),
    ("Who wrote it?", ("is by Katsura Hoshino",), ("D.Gray-man",)),
    ("Where is my order?", ("MA-10482", "shipped", "Vinland Saga"), ("Your order MA-10482",)),
    ("When will it arrive?", ("MA-10482", "expected on"), ("Your order MA-10482",)),
    (
        "Can I get a refund for my box set?",
        ("MA-10377", "until", "Returns and refunds"),
        ("Your order MA-10377",),
    ),
    ("Where is order MA-10459?", ("cannot see an order MA-10459",), ()),  # another user's
    ("blorp fnord wibble", ("nothing about that", "choose series"), ()),
    ("Thanks, what did I ask first?", ("Hello!",), ()),
]


def say(page: Page, text: str, number: int) -> Locator:
    """Say it and wait for the end of its answer."""
    page.fill("#composer-text", text)
    page.click("#send")
    turn = page.locator(f".turn:nth-child({number})")
    expect(turn).to_have_attribute("data-status", "completed", timeout=30_000)
    return turn


def test_ten_turns_about_books_an_order_a_refund_and_nonsense_read_well(
    stack_url: str, open_page: OpenPage, screenshot: Callable[[Page, str], None]
) -> None:
    page = open_page(stack_url, size=PHONE, scheme="dark")
    for number, (text, told, sources) in enumerate(TURNS, 1):
        turn = say(page, text, number)
        answer = turn.locator(".answer")
        for words in told:
            expect(answer).to_contain_text(words)
        expect(answer).to_have_text(SIGNED)
        expect(answer).not_to_contain_text("no passage")
        titles = turn.locator(".sources li").all_inner_texts()
        assert set(sources) <= set(titles)
        if "nothing about that" in told or text == "Hello!":
            assert titles == []
        screenshot(page, f"ten-turns-{number:02d}")
    before = page.locator(".turn").all_inner_texts()
    page.reload()
    expect(page.locator(".turn")).to_have_count(len(TURNS))
    expect(page.locator(".turn").last).to_have_attribute("data-status", "completed")
    assert page.locator(".turn").all_inner_texts() == before
