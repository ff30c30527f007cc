"""DynamoDB's JSON: attribute values, and answers as types."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from shared.errors import DependencyUnavailable

T = TypeVar("T")


class Text(msgspec.Struct):
    """A string attribute."""

    S: str


class Number(msgspec.Struct):
    """A number attribute; DynamoDB carries digits, so no number is ever a float."""

    N: str

    @property
    def value(self) -> int:
        """The whole number."""
        return int(self.N)


def number(value: int) -> Number:
    """The attribute of a whole number."""
    return Number(str(value))


def read_answer(body: bytes | str, type_: type[T]) -> T:
    """An answer, or JSON kept inside an item, as `type_`. Raises DependencyUnavailable when it is none."""
    try:
        return msgspec.json.decode(body, type=type_)
    except msgspec.MsgspecError as error:
        raise DependencyUnavailable(f"DynamoDB's answer is no {type_.__name__}") from error
