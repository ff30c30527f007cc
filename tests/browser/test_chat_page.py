"""The chat page in a real browser, against a scripted server that speaks the protocol."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import DESKTOP, PHONE, OpenPage
from tests.fakes.chat_server import ASSISTANT, ThreadedChatServer

Save = Callable[[Page, str], None]


def say(page: Page, text: str) -> None:
    page.fill("#composer-text", text)
    page.press("#composer-text", "Enter")


def turn(page: Page, number: int) -> Locator:
    return page.locator(f".turn:nth-child({number})")


def expect_status(page: Page, number: int, status: str) -> Locator:
    found = turn(page, number)
    expect(found).to_have_attribute("data-status", status, timeout=10_000)
    return found


def expect_link(page: Page, state: str) -> None:
    expect(page.locator("#link")).to_have_attribute("data-state", state, timeout=15_000)


def test_newcomer_is_greeted_with_the_assistants_words(
    chat: ThreadedChatServer, open_page: OpenPage
) -> None:
    page = open_page(chat.url)
    expect(page.locator(".greeting")).to_have_text(ASSISTANT["greeting"])
    expect(page.locator("#suggestions button")).to_have_count(4)
    expect(page).to_have_title("MangaAssist")
    expect(page.locator("#composer-text")).to_be_focused()
    page.get_by_role("button", name="Where is my order?").click()
    expect_status(page, 1, "completed")
    expect(page.locator("#welcome")).to_be_hidden()
    expect(page.locator("#sessions .session-open")).to_have_text("Where is my order?")


@pytest.mark.parametrize("size", [(320, 568), (844, 390)])
def test_welcome_starts_at_its_top_on_a_small_window(
    chat: ThreadedChatServer, open_page: OpenPage, size: tuple[int, int]
) -> None:
    page = open_page(chat.url, size=size)
    scroller = page.locator("#scroller")
    expect_link(page, "online")
    expect(page.locator("#suggestions button")).to_have_count(4)
    assert scroller.evaluate("(element) => element.scrollHeight > element.clientHeight")
    assert scroller.evaluate("(element) => element.scrollTop") == 0
    page.fill("#composer-text", "a line\nand another")
    assert scroller.evaluate("(element) => element.scrollTop") == 0
    expect(page.locator("#to-latest")).to_be_hidden()
    page.click("#send")
    expect_status(page, 1, "completed")
    expect(page.locator("#to-latest")).to_be_hidden()


def test_answer_streams_and_ends_with_its_facts(
    chat: ThreadedChatServer, open_page: OpenPage
) -> None:
    page = open_page(chat.url)
    say(page, "/slow 20")
    streaming = expect_status(page, 1, "streaming")
    expect(streaming.locator(".answer")).to_contain_text("One calm answer")
    expect(page.locator("#stop")).to_be_visible()
    done = expect_status(page, 1, "completed")
    expect(done.locator(".facts")).to_contain_text("inline · first words after 0.32 s")
    expect(page.locator("#stop")).to_be_hidden()
    expect(page.locator("#announcer")).to_contain_text("One calm answer")


def test_markdown_becomes_elements_and_sources_are_named(
    chat: ThreadedChatServer, open_page: OpenPage
) -> None:
    page = open_page(chat.url)
    say(page, "/rich")
    done = expect_status(page, 1, "completed")
    for selector, count in {"ol li": 3, "table tr": 3, "pre code": 1, "blockquote": 1}.items():
        expect(done.locator(f".answer {selector}")).to_have_count(count)
    link = done.get_by_role("link", name="the catalogue")
    expect(link).to_have_attribute("rel", re.compile("noopener"))
    expect(done.locator(".sources li")).to_have_text(["Staff picks", "Stock list"])
    done.get_by_role("button", name="Copy").click()
    assert page.evaluate("navigator.clipboard.readText()").startswith("Here are three series")


def test_hostile_answer_and_question_stay_inert(
    chat: ThreadedChatServer, open_page: OpenPage
) -> None:
    page = open_page(chat.url)
    say(page, "/hostile <img src=x onerror=window.hacked=1>")
    done = expect_status(page, 1, "completed")
    assert page.evaluate("window.hacked") is None
    for name in ("img", "script", "svg", "iframe", "object", "b"):
        expect(done.locator(f".answer {name}, .said {name}")).to_have_count(0)
    for anchor in done.locator(".answer a").all():
        assert (anchor.get_attribute("href") or "").startswith("https://example.com/")
        anchor_attributes = anchor.evaluate("a => a.getAttributeNames()")
        assert set(anchor_attributes) == {"href", "target", "rel"}


def test_page_is_served_under_a_strict_policy(
    chat: ThreadedChatServer, open_page: OpenPage
) -> None:
    page = open_page(chat.url)
    source = page.content()
    assert " style=" not in source.split("<body", 1)[0]
    inline_scripts = page.locator("script:not([src])").count()
    outside = page.evaluate(
        "performance.getEntriesByType('resource').filter(r => !r.name.startsWith(origin)).length"
    )
    assert (inline_scripts, outside) == (0, 0)


@pytest.mark.parametrize("way", ["button", "escape"])
def test_stop_ends_the_answer_and_keeps_its_text(
    chat: ThreadedChatServer, open_page: OpenPage, way: str
) -> None:
    page = open_page(chat.url)
    say(page, "/slow")
    expect(turn(page, 1).locator(".answer")).to_contain_text("One calm")
    if way == "button":
        page.click("#stop")
    else:
        page.keyboard.press("Escape")
    done = expect_status(page, 1, "cancelled")
    expect(done.locator(".facts")).to_contain_text("Stopped")
    expect(done.locator(".answer")).to_contain_text("One calm")
    expect(page.locator("#composer-text")).to_be_focused()


def test_failed_answer_offers_another_try_with_a_new_message(
    chat: ThreadedChatServer, open_page: OpenPage
) -> None:
    page = open_page(chat.url)
    say(page, "/fail")
    failed = expect_status(page, 1, "failed")
    expect(failed.locator(".notice")).to_contain_text("What is shown above is incomplete.")
    failed.get_by_role("button", name="Try again").click()
    expect_status(page, 2, "failed")
    expect(failed.get_by_role("button", name="Try again")).to_have_count(0)
    assert len({frame["message_id"] for frame in sends(chat)}) == 2


def test_rejected_message_counts_down_and_is_repeated_with_its_id(
    chat: ThreadedChatServer, open_page: OpenPage
) -> None:
    page = open_page(chat.url)
    say(page, "/reject")
    rejected = expect_status(page, 1, "rejected")
    retry = rejected.get_by_role("button", name=re.compile("Try again"))
    expect(retry).to_be_disabled()
    expect(retry).to_have_text(re.compile(r"Try again in \d s"))
    expect(retry).to_be_enabled(timeout=10_000)
    retry.click()
    expect_status(page, 1, "rejected")
    assert len(sends(chat)) == 2
    assert len({frame["message_id"] for frame in sends(chat)}) == 1


def test_blocked_answer_disappears(chat: ThreadedChatServer, open_page: OpenPage) -> None:
    page = open_page(chat.url)
    say(page, "/block")
    failed = expect_status(page, 1, "failed")
    expect(failed.locator(".answer")).to_be_empty()
    expect(failed.locator(".notice")).to_have_text("I can't help with that.")


def test_new_attempt_replaces_the_text(chat: ThreadedChatServer, open_page: OpenPage) -> None:
    page = open_page(chat.url)
    say(page, "/restart")
    done = expect_status(page, 1, "completed")
    expect(done.locator(".answer")).not_to_contain_text("first attempt")
    expect(done.locator(".answer")).to_contain_text("You said: /restart")


def test_answer_that_fails_its_check_is_replaced_by_the_stored_one(
    chat: ThreadedChatServer, open_page: OpenPage
) -> None:
    page = open_page(chat.url)
    say(page, "/wrong")
    expect(expect_status(page, 1, "completed").locator(".answer")).to_have_text("Right words")


def test_queue_and_expiry_are_told(chat: ThreadedChatServer, open_page: OpenPage) -> None:
    page = open_page(chat.url)
    say(page, "/queue 1.5")
    expect(expect_status(page, 1, "queued").locator(".state")).to_have_text(
        re.compile(r"about \d s")
    )
    expect(expect_status(page, 1, "completed").locator(".facts")).to_contain_text("burst")
    say(page, "/expire")
    expect(expect_status(page, 2, "expired").locator(".notice")).to_contain_text("too long")


def test_waiting_message_can_be_withdrawn(chat: ThreadedChatServer, open_page: OpenPage) -> None:
    page = open_page(chat.url)
    say(page, "/slow")
    expect_status(page, 1, "streaming")
    say(page, "second")
    say(page, "third")
    expect(expect_status(page, 2, "waiting").locator(".state")).to_contain_text("next in line")
    expect(expect_status(page, 3, "waiting").locator(".state")).to_contain_text("2 messages ahead")
    turn(page, 2).get_by_role("button", name="Withdraw").click()
    expect_status(page, 2, "cancelled")
    expect(turn(page, 3).locator(".state")).to_contain_text("next in line")


def test_cut_connection_is_visible_and_the_answer_continues(
    chat: ThreadedChatServer, open_page: OpenPage
) -> None:
    page = open_page(chat.url)
    expect_link(page, "online")
    say(page, "/slow 20")
    expect(turn(page, 1).locator(".answer")).to_contain_text("One calm")
    chat.server.refuse_with = 503
    chat.drop()
    expect_link(page, "retrying")
    expect(page.locator("#link-text")).to_contain_text("Reconnecting")
    say(page, "written meanwhile")
    expect(turn(page, 2).locator(".state")).to_contain_text("when the connection is back")
    chat.server.refuse_with = None
    expect_status(page, 1, "completed")
    expect(expect_status(page, 2, "completed").locator(".answer")).to_contain_text("meanwhile")
    expect_link(page, "online")


def test_reload_brings_back_history_and_the_running_answer(
    chat: ThreadedChatServer, open_page: OpenPage
) -> None:
    page = open_page(chat.url)
    say(page, "/rich")
    facts = expect_status(page, 1, "completed").locator(".facts").inner_text()
    assert "Stock list" in facts
    say(page, "/slow 20")
    expect(turn(page, 2).locator(".answer")).to_contain_text("One calm")
    page.reload()
    assert expect_status(page, 1, "completed").locator(".facts").inner_text() == facts
    expect(turn(page, 1).locator(".answer table")).to_be_visible()
    expect(turn(page, 2).locator(".said")).to_have_text("/slow 20")
    expect_status(page, 2, "completed")
    expect(page.locator(".turn")).to_have_count(2)
    assert len(chat.server._sessions) == 1


def test_earlier_messages_load_on_request(chat: ThreadedChatServer, open_page: OpenPage) -> None:
    chat.server.pace_s = 0
    page = open_page(chat.url)
    for number in range(22):
        say(page, f"question {number}")
        expect_status(page, number + 1, "completed")
    page.reload()
    expect(page.locator(".turn")).to_have_count(20)
    page.click("#load-earlier")
    expect(page.locator(".turn")).to_have_count(22)
    expect(turn(page, 1).locator(".said")).to_have_text("question 0")
    expect(page.locator("#load-earlier")).to_be_hidden()


def test_sessions_are_listed_switched_and_removed(
    chat: ThreadedChatServer, open_page: OpenPage
) -> None:
    page = open_page(chat.url)
    say(page, "first topic")
    expect_status(page, 1, "completed")
    page.click("#new-session")
    expect(page.locator(".turn")).to_have_count(0)
    expect(page.locator("#welcome")).to_be_visible()
    say(page, "second topic")
    expect_status(page, 1, "completed")
    titles = page.locator("#sessions .session-open")
    expect(titles).to_have_text(["second topic", "first topic"])
    titles.nth(1).click()
    expect(turn(page, 1).locator(".said")).to_have_text("first topic")
    expect(page.locator("#title")).to_have_text("first topic")
    page.get_by_role("button", name="Remove “first topic”").click()
    page.get_by_role("button", name="Remove", exact=True).click()
    expect(titles).to_have_text(["second topic"])
    expect(page.locator("#welcome")).to_be_visible()


def test_answer_goes_on_in_a_session_that_was_left(
    chat: ThreadedChatServer, open_page: OpenPage
) -> None:
    page = open_page(chat.url)
    say(page, "/slow 20")
    expect_status(page, 1, "streaming")
    page.click("#new-session")
    expect(page.locator(".session[data-busy]")).to_have_count(1)
    expect(page.locator(".session[data-busy]")).to_have_count(0, timeout=10_000)
    page.click("#sessions .session-open")
    expect_status(page, 1, "completed")


def test_user_chooses_a_name_and_has_conversations_of_their_own(
    chat: ThreadedChatServer, open_page: OpenPage
) -> None:
    page = open_page(chat.url)
    say(page, "as a guest")
    expect_status(page, 1, "completed")
    page.click("#open-settings")
    page.fill("#user", "alice")
    page.click("#sign-in button")
    expect(page.locator("#person-name")).to_have_text("alice")
    expect(page.locator("#sessions .session-open")).to_have_count(0)
    say(page, "as alice")
    expect_status(page, 1, "completed")
    protocols = chat.server.handshakes[-1].headers["Sec-WebSocket-Protocol"]
    assert protocols == "burstchat.v1, bearer.fake.alice.x"
    page.click("#open-settings")
    page.click("#sign-out")
    expect(page.locator("#person-name")).to_have_text("Guest")
    expect(page.locator("#sessions .session-open")).to_have_text(["as a guest"])


def test_refused_sign_in_asks_to_sign_in(chat: ThreadedChatServer, open_page: OpenPage) -> None:
    chat.server.refuse_with = 401
    page = open_page(chat.url)
    expect_link(page, "stopped")
    expect(page.locator("#link-text")).to_have_text("Signed out")
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("#settings")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#settings")).to_be_hidden()


def test_idle_session_wakes_when_the_user_writes(
    chat: ThreadedChatServer, open_page: OpenPage
) -> None:
    page = open_page(chat.url)
    expect_link(page, "online")
    chat.close_all(4408)
    expect_link(page, "idle")
    say(page, "back again")
    expect_status(page, 1, "completed")


def test_keyboard_reaches_everything_and_adds_lines(
    chat: ThreadedChatServer, open_page: OpenPage
) -> None:
    page = open_page(chat.url)
    expect(page.locator("#suggestions button")).to_have_count(4)
    page.locator("#composer-text").press_sequentially("one")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("two")
    expect(page.locator("#composer-text")).to_have_value("one\ntwo")
    page.keyboard.press("Enter")
    expect(turn(page, 1).locator(".said")).to_have_text("one\ntwo")
    expect_status(page, 1, "completed")
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.closest('main, nav') !== null")


def test_message_beyond_the_limit_is_named_before_it_is_sent(
    chat: ThreadedChatServer, open_page: OpenPage
) -> None:
    page = open_page(chat.url)
    page.fill("#composer-text", "漫" * 6000)
    expect(page.locator("#composer-note")).to_have_text("Too long by 1,616 bytes.")
    expect(page.locator("#send")).to_be_disabled()


def test_reader_who_scrolled_up_is_left_in_place(
    chat: ThreadedChatServer, open_page: OpenPage
) -> None:
    page = open_page(chat.url, size=(700, 320))
    say(page, "/slow 30")
    much = re.compile("(One calm answer.*){14}")
    expect(turn(page, 1).locator(".answer")).to_have_text(much, timeout=20_000)
    page.hover("#scroller")
    page.mouse.wheel(0, -4000)
    expect(page.locator("#to-latest")).to_be_visible()
    expect(page.locator("#stop")).to_be_visible()
    expect_status(page, 1, "completed")
    assert page.evaluate("document.querySelector('#scroller').scrollTop") < 50
    page.click("#to-latest")
    expect(page.locator("#to-latest")).to_be_hidden()


def test_theme_is_toggled_and_kept(chat: ThreadedChatServer, open_page: OpenPage) -> None:
    page = open_page(chat.url)
    light = background(page)
    page.click("#toggle-theme")
    dark = background(page)
    assert dark != light
    page.reload()
    assert background(page) == dark
    page.click("#toggle-theme")
    assert background(page) == light


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("device", "size"), [("desktop", DESKTOP), ("phone", PHONE)])
def test_page_looks_right_on(
    chat: ThreadedChatServer,
    open_page: OpenPage,
    screenshot: Save,
    device: str,
    size: tuple[int, int],
    scheme: str,
) -> None:
    page = open_page(chat.url, size=size, scheme=scheme, device_scale_factor=2)
    expect(page.locator("#suggestions button")).to_have_count(4)
    expect_link(page, "online")
    screenshot(page, f"{device}-{scheme}-welcome")
    tell(page, "Recommend a manga like Fullmetal Alchemist, but quieter")
    expect_status(page, 1, "completed")
    tell(page, "/rich")
    expect_status(page, 2, "completed")
    screenshot(page, f"{device}-{scheme}-answer")
    tell(page, "/fail")
    expect_status(page, 3, "failed")
    tell(page, "/slow")
    expect(turn(page, 4).locator(".answer")).to_contain_text("One calm")
    tell(page, "And the second volume?")
    expect_status(page, 5, "waiting")
    screenshot(page, f"{device}-{scheme}-states")
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert page.evaluate("document.querySelector('#scroller').scrollWidth") <= size[0]
    assert contrast(page, ".facts") >= 4.5
    assert contrast(page, ".state") >= 4.5
    assert contrast(page, ".notice p") >= 4.5
    if size == PHONE:
        expect_drawer(page)
        screenshot(page, f"{device}-{scheme}-drawer")


def expect_drawer(page: Page) -> None:
    small = page.evaluate(
        """[...document.querySelectorAll("button, textarea, input")]
          .filter((element) => element.checkVisibility({visibilityProperty: true}))
          .filter((element) => element.closest("#link, [inert]") === null)
          .map((element) => [element.id || element.className, element.getBoundingClientRect()])
          .filter(([, box]) => box.width && (box.height < 44 || box.width < 44))
          .map(([name]) => name)"""
    )
    assert small == []
    page.click("#open-sidebar")
    expect(page.locator("#sidebar")).to_be_in_viewport()
    expect(page.locator("#close-sidebar")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#open-sidebar")).to_be_focused()
    page.click("#open-sidebar")
    page.wait_for_timeout(300)  # the drawer slides


def tell(page: Page, text: str) -> None:
    """Send by button: on a touch screen Enter adds a line."""
    page.fill("#composer-text", text)
    page.click("#send")


def sends(chat: ThreadedChatServer) -> list[dict[str, str]]:
    return [frame for frame in chat.server.received if frame["type"] == "chat.send"]


def background(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def contrast(page: Page, selector: str) -> float:
    """WCAG contrast of the text of an element against what lies behind it."""
    ratio = (
        page.locator(selector)
        .locator("visible=true")
        .first.evaluate(
            """(element) => {
          const channels = (color) => {
            const context = new OffscreenCanvas(1, 1).getContext("2d");
            context.fillStyle = color;
            context.fillRect(0, 0, 1, 1);
            return [...context.getImageData(0, 0, 1, 1).data];
          };
          const luminance = (color) => {
            const [r, g, b] = channels(color).map((value) => {
              const part = value / 255;
              return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
            });
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          let behind = element;
          while (channels(getComputedStyle(behind).backgroundColor)[3] === 0) {
            behind = behind.parentElement;
          }
          const [a, b] = [
            luminance(getComputedStyle(element).color),
            luminance(getComputedStyle(behind).backgroundColor),
          ].sort();
          return (b + 0.05) / (a + 0.05);
        }"""
        )
    )
    return float(ratio)
