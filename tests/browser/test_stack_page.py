"""The chat page against a running stack, as a newcomer meets it."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.conftest import OpenPage


def test_question_is_answered_and_survives_a_reload(stack_url: str, open_page: OpenPage) -> None:
    page = open_page(stack_url)
    expect(page.locator("#suggestions button").first).to_be_visible()
    page.locator("#suggestions button").first.click()
    turn = page.locator(".turn")
    expect(turn).to_have_attribute("data-status", "completed", timeout=30_000)
    expect(turn.locator(".answer")).not_to_be_empty()
    expect(turn.locator(".facts")).to_contain_text("first words after")
    answer = turn.locator(".answer").inner_text()
    page.reload()
    expect(turn).to_have_attribute("data-status", "completed", timeout=15_000)
    assert turn.locator(".answer").inner_text() == answer


def test_running_answer_continues_after_a_reload_and_stops(
    stack_url: str, open_page: OpenPage
) -> None:
    page = open_page(stack_url)
    page.fill("#composer-text", "/sim tokens=600 ttft_ms=100 tokens_per_s=30")
    page.press("#composer-text", "Enter")
    turn = page.locator(".turn")
    expect(turn.locator(".answer")).to_have_text(re.compile(r"\S{3}"), timeout=30_000)
    page.reload()
    expect(turn).to_have_attribute("data-status", "streaming", timeout=15_000)
    page.click("#stop")
    expect(turn).to_have_attribute("data-status", "cancelled", timeout=15_000)
