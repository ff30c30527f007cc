"""Credentials of the default chain, read off the event loop and renewed before they end."""

from __future__ import annotations

import datetime
from typing import Any

import botocore.session
import pytest
from botocore.credentials import RefreshableCredentials
from botocore.exceptions import CredentialRetrievalError

from shared.adapters.aws_credentials import AwsCredentials
from shared.errors import ConfigurationError, DependencyUnavailable
from shared.policy.sigv4 import Credential


@pytest.fixture
def chain(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What botocore's chain finds; `reads` counts how often it was asked."""
    state: dict[str, Any] = {"found": None, "reads": 0}

    def get_credentials(_: object) -> Any:
        state["reads"] += 1
        return state["found"]

    monkeypatch.setattr(botocore.session.Session, "get_credentials", get_credentials)
    return state


async def test_keys_of_the_environment_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "env-secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "env-token")

    credential = await AwsCredentials("eu-west-1").current()

    assert credential == Credential("AKIDENV", "env-secret", "eu-west-1", "env-token")


async def test_the_chain_is_read_once(chain: dict[str, Any]) -> None:
    chain["found"] = botocore.credentials.Credentials("AKID", "secret")
    credentials = AwsCredentials("us-east-1")

    assert await credentials.current() is await credentials.current()
    assert chain["reads"] == 1


async def test_the_chain_is_read_again_after_forget(chain: dict[str, Any]) -> None:
    chain["found"] = botocore.credentials.Credentials("AKID", "secret")
    credentials = AwsCredentials("us-east-1")
    await credentials.current()
    chain["found"] = botocore.credentials.Credentials("AKID2", "secret")
    credentials.forget()

    assert (await credentials.current()).access_key_id == "AKID2"


async def test_temporary_keys_are_renewed_when_due(chain: dict[str, Any]) -> None:
    now = datetime.datetime.now(datetime.UTC)
    renewals: list[int] = []

    def refresh() -> dict[str, str]:
        renewals.append(1)
        expiry = now + datetime.timedelta(hours=1)
        return {
            "access_key": f"ASIA{len(renewals)}",
            "secret_key": "s",
            "token": "t",
            "expiry_time": expiry.isoformat(),
        }

    chain["found"] = RefreshableCredentials(
        "ASIA0", "s", "t", now + datetime.timedelta(minutes=1), refresh, "test"
    )
    credentials = AwsCredentials("us-east-1")

    keys = [(await credentials.current()).access_key_id for _ in range(3)]

    assert keys == ["ASIA1"] * 3
    assert len(renewals) == 1


async def test_an_empty_chain_is_a_configuration_error(chain: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="AWS_ACCESS_KEY_ID"):
        await AwsCredentials("us-east-1").current()


async def test_a_failed_renewal_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> Any:
        raise CredentialRetrievalError(provider="container-role", error_msg="timed out")

    monkeypatch.setattr(botocore.session.Session, "get_credentials", fail)

    with pytest.raises(DependencyUnavailable):
        await AwsCredentials("us-east-1").current()


async def test_fixed_keys_never_ask_the_chain(chain: dict[str, Any]) -> None:
    fixed = Credential("AKID", "secret", "us-east-1")
    credentials = AwsCredentials("us-east-1", fixed=fixed)
    credentials.forget()

    assert await credentials.current() is fixed
    assert chain["reads"] == 0
