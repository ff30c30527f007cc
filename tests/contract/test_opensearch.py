"""What is asked of OpenSearch: signatures, the turn from one state of the corpus to the next, and its refusals."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest

from shared.adapters import opensearch_mirror
from shared.adapters.aws_credentials import AwsCredentials
from shared.adapters.http_session import HttpSession
from shared.adapters.opensearch_api import NoSuchIndex, OpenSearchApi, OpenSearchRefused
from shared.adapters.opensearch_mirror import OpenSearchMirror
from shared.adapters.opensearch_retriever import OpenSearchRetriever
from shared.clock import SystemClock
from shared.errors import ConfigurationError, DependencyUnavailable
from shared.policy.sigv4 import Credential
from tests.fakes.http_server import raw_server
from tests.fakes.knowledge import FakeEmbedder, small_index
from tests.fakes.opensearch import CREDENTIAL, FakeOpenSearch

INDEX = small_index()
NEWER = replace(INDEX, fingerprints={"policies/parcels.md": "changed"})


@dataclass
class World:
    domain: FakeOpenSearch
    url: str
    http: HttpSession

    def api(self, credential: Credential = CREDENTIAL) -> OpenSearchApi:
        return OpenSearchApi(
            self.url,
            http=self.http,
            credentials=AwsCredentials("us-east-1", fixed=credential),
            clock=SystemClock(),
            timeout_ms=2_000,
        )

    def mirror(self) -> OpenSearchMirror:
        return OpenSearchMirror(self.api(), "passages")

    def retriever(self) -> OpenSearchRetriever:
        return OpenSearchRetriever(self.api(), "passages", FakeEmbedder())


@pytest.fixture
async def world() -> AsyncIterator[World]:
    domain, http = FakeOpenSearch(SystemClock().now_ms()), HttpSession()
    async with raw_server(domain.handle) as server:
        yield World(domain, server.url, http)
        await http.close()


async def test_a_named_document_comes_first_with_its_boost(world: World) -> None:
    await world.mirror().replace(INDEX)

    found = await world.retriever().search("is Iron Kettle finished", 2)

    assert found[0].source_id == "iron-kettle"
    assert found[0].score > 0.5


async def test_the_next_state_takes_the_place_of_the_last_in_one_step(world: World) -> None:
    await world.mirror().replace(INDEX)
    [before] = world.domain.aliases["passages"]

    await world.mirror().replace(NEWER)

    [after] = world.domain.aliases["passages"]
    assert after != before
    assert world.domain.indices.keys() == {after}


async def test_a_copy_that_broke_off_is_made_whole_by_the_next(world: World) -> None:
    await world.mirror().replace(INDEX)
    [before] = world.domain.aliases["passages"]
    world.domain.loses_writes = True
    with pytest.raises(DependencyUnavailable):
        await world.mirror().replace(NEWER)
    assert world.domain.aliases["passages"] == {before}

    world.domain.loses_writes = False
    await world.mirror().replace(NEWER)

    [after] = world.domain.aliases["passages"]
    assert len(world.domain.indices[after]) == len(INDEX.passages)


async def test_the_same_state_again_changes_nothing(world: World) -> None:
    await world.mirror().replace(INDEX)
    before = {name: dict(held) for name, held in world.domain.indices.items()}

    await world.mirror().replace(INDEX)

    assert world.domain.indices == before


async def test_a_large_corpus_goes_over_in_several_bodies(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opensearch_mirror, "BULK_LIMIT_BYTES", 600)

    await world.mirror().replace(INDEX)

    [name] = world.domain.aliases["passages"]
    assert len(world.domain.indices[name]) == len(INDEX.passages)


async def test_a_search_before_the_first_refresh_says_what_to_do(world: World) -> None:
    with pytest.raises(NoSuchIndex, match="knowledge_refresh"):
        await world.retriever().search("whales", 3)


async def test_a_foreign_signature_is_a_matter_of_configuration(world: World) -> None:
    stranger = Credential("AKIDOTHER", "other", "us-east-1")
    with pytest.raises(ConfigurationError, match="access policy"):
        await world.api(stranger).call("GET", "/_alias/passages")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (429, DependencyUnavailable),
        (503, DependencyUnavailable),
        (400, OpenSearchRefused),
        (403, ConfigurationError),
    ],
)
async def test_refusals_say_what_to_do_next(
    world: World, status: int, expected: type[Exception]
) -> None:
    world.domain.status = status
    with pytest.raises(expected):
        await world.retriever().search("whales", 3)


@pytest.mark.parametrize("url", ["search.example.com", "https://host/path", "ftp://host"])
def test_an_address_that_is_no_domain_names_the_setting(url: str) -> None:
    with pytest.raises(ConfigurationError, match="BURSTCHAT_OPENSEARCH_URL"):
        World(FakeOpenSearch(0), url, HttpSession()).api()
