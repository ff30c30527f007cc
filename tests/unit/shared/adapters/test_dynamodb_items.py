"""DynamoDB's JSON as types."""

from __future__ import annotations

import msgspec
import pytest

from shared.adapters.dynamodb_items import Number, Text, number, read_answer
from shared.errors import DependencyUnavailable


class _Item(msgspec.Struct):
    name: Text
    count: Number


def test_whole_numbers_travel_as_digits_whatever_their_size() -> None:
    large = 2**80 + 1
    assert msgspec.json.encode(number(large)) == b'{"N":"%d"}' % large
    assert number(large).value == large


def test_an_answer_is_read_with_fields_that_nobody_asked_for() -> None:
    item = read_answer(b'{"name":{"S":"a"},"count":{"N":"7"},"later":{"BOOL":true}}', _Item)
    assert (item.name.S, item.count.value) == ("a", 7)


@pytest.mark.parametrize("body", [b"", b"null", b'{"name":{"S":"a"}}', b"\xff"])
def test_what_is_no_answer_counts_as_not_asked(body: bytes) -> None:
    with pytest.raises(DependencyUnavailable):
        read_answer(body, _Item)
