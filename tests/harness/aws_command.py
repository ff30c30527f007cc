"""Runs `aws …` command lines of the documents through boto3, so that no test needs the AWS CLI."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jmespath
from botocore import xform_name


def run_aws(words: Sequence[str], client_of: Callable[[str], Any]) -> Any:
    """The answer of `aws SERVICE OPERATION --option value …`; an option that does not exist raises KeyError."""
    program, service, operation, *rest = words
    assert program == "aws"
    client = client_of(service)
    method = operation.replace("-", "_")
    model = client.meta.service_model.operation_model(client.meta.method_to_api_mapping[method])
    members = {xform_name(name, "-"): (name, m) for name, m in model.input_shape.members.items()}
    arguments: dict[str, Any] = {}
    query = None
    for option, values in _options(rest):
        if option == "query":
            (query,) = values
            continue
        name, shape = members[option]
        arguments[name] = _convert(values, shape.type_name)
    answer = getattr(client, method)(**arguments)
    answer.pop("ResponseMetadata", None)
    return answer if query is None else jmespath.search(query, answer)


def _options(words: Sequence[str]) -> list[tuple[str, list[str]]]:
    options: list[tuple[str, list[str]]] = []
    for word in words:
        if word.startswith("--"):
            options.append((word[2:], []))
        else:
            options[-1][1].append(word)
    return options


def _convert(values: list[str], type_name: str) -> Any:
    if type_name == "list":
        return values
    if type_name == "boolean":
        assert not values
        return True
    (value,) = values
    return int(value) if type_name in ("integer", "long") else value
