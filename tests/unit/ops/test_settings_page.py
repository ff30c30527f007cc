from pathlib import Path

from ops.settings_page import render

PAGE = Path(__file__).resolve().parents[3] / "docs" / "settings.md"


def test_settings_page_is_what_the_types_say() -> None:
    assert PAGE.read_text() == render(), "docs/settings.md is out of date: run `make docs`"
