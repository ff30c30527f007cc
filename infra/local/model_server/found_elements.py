"""What a prompt brought along: the elements before the question, read back into values."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_ELEMENT = re.compile(
    r"<(?P<name>passage|similar_title|order)\b(?P<attributes>[^>]*)>(?P<body>.*?)</(?P=name)>",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(r'([a-z_]+)="([^"]*)"')
_GROUP = re.compile(r"<(passages|similar_titles|orders)>.*?</\1>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Element:
    """One element; `attributes` and `body` without their escapes."""

    name: str
    attributes: Mapping[str, str]
    body: str

    @property
    def title(self) -> str:
        """Its title, else its id."""
        return self.attributes.get("title") or self.attributes.get("id", "")


@dataclass(frozen=True, slots=True)
class Found:
    """Everything found for one question, in the order given; `has_orders` tells "none" from "not asked"."""

    passages: tuple[Element, ...]
    similar: tuple[Element, ...]
    orders: tuple[Element, ...]
    has_orders: bool


def read_found(texts: Sequence[str]) -> Found:
    """The elements of all blocks before the question, or in it, should a prompt put both into one block."""
    whole = "\n".join(texts)
    elements = [
        Element(
            match["name"],
            {key: html.unescape(value) for key, value in _ATTRIBUTE.findall(match["attributes"])},
            html.unescape(match["body"]).strip(),
        )
        for match in _ELEMENT.finditer(whole)
    ]
    return Found(
        passages=tuple(element for element in elements if element.name == "passage"),
        similar=tuple(element for element in elements if element.name == "similar_title"),
        orders=tuple(element for element in elements if element.name == "order"),
        has_orders="<orders>" in whole,
    )


def own_words(text: str) -> str:
    """A block without elements."""
    return _GROUP.sub("", text).strip()
