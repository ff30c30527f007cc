"""What every IntentClassifier does, in memory and for real."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from shared.adapters.aws_credentials import AwsCredentials
from shared.adapters.http_session import HttpSession
from shared.adapters.index_builder import build_index
from shared.adapters.linear_intent_classifier import LinearIntentClassifier
from shared.adapters.sagemaker_intent_classifier import SageMakerIntentClassifier
from shared.adapters.wordllama_embedder import WordLlamaEmbedder
from shared.clock import SystemClock
from shared.contracts.knowledge import GENERAL_INTENT, Intent
from shared.errors import DependencyUnavailable
from shared.policy.corpus import read_corpus
from shared.ports import IntentClassifier
from tests.fakes.http_server import raw_server
from tests.fakes.knowledge import FakeIntentClassifier, small_corpus
from tests.fakes.sagemaker import CREDENTIAL, ENDPOINT, FakeSageMaker

EMBEDDER = WordLlamaEmbedder()
BY_WORD = {"parcel": "shipping", "recommend": "recommendation"}
Opening = Callable[[bool], AbstractAsyncContextManager[IntentClassifier]]


@asynccontextmanager
async def fake(is_down: bool) -> AsyncIterator[IntentClassifier]:
    classifier = FakeIntentClassifier(BY_WORD)
    classifier.is_down = is_down
    yield classifier


@asynccontextmanager
async def linear(is_down: bool) -> AsyncIterator[IntentClassifier]:
    index = build_index(read_corpus(small_corpus()), {}, EMBEDDER)

    def current():
        if is_down:
            raise DependencyUnavailable("no knowledge index is loaded")
        return index

    yield LinearIntentClassifier(current, EMBEDDER)


@asynccontextmanager
async def sagemaker(is_down: bool) -> AsyncIterator[IntentClassifier]:
    clock, http = SystemClock(), HttpSession()
    endpoint = FakeSageMaker(BY_WORD, clock.now_ms())
    endpoint.fails_with = "ServiceUnavailable" if is_down else ""
    async with raw_server(endpoint.handle) as server:
        yield SageMakerIntentClassifier(
            endpoint=ENDPOINT,
            http=http,
            credentials=AwsCredentials("us-east-1", fixed=CREDENTIAL),
            clock=clock,
            base_url=server.url,
            timeout_ms=2_000,
        )
        await http.close()


@pytest.fixture(params=[fake, linear, sagemaker], ids=["fake", "linear", "sagemaker"])
def opening(request: pytest.FixtureRequest) -> Opening:
    return request.param


@pytest.mark.parametrize(
    ("text", "label"),
    [("what does a parcel cost", "shipping"), ("recommend a series", "recommendation")],
)
async def test_classify_names_what_the_user_wants(opening: Opening, text: str, label: str) -> None:
    async with opening(False) as classifier:
        intent = await classifier.classify(text)
    assert intent.label == label
    assert 0.5 < intent.confidence <= 1


@pytest.mark.parametrize("text", ["", " \n"])
async def test_classify_of_a_blank_text_is_general_without_confidence(
    opening: Opening, text: str
) -> None:
    async with opening(False) as classifier:
        assert await classifier.classify(text) == Intent(GENERAL_INTENT, 0.0)


@pytest.mark.parametrize("text", ["🐋" * 500, "送料", "\ud800", "word " * 4_000, "%s {0}"])
async def test_classify_survives_any_text(opening: Opening, text: str) -> None:
    async with opening(False) as classifier:
        intent = await classifier.classify(text)
    assert intent.label in {*BY_WORD.values(), GENERAL_INTENT}
    assert 0 <= intent.confidence <= 1


async def test_classify_that_cannot_ask_says_so(opening: Opening) -> None:
    async with opening(True) as classifier:
        with pytest.raises(DependencyUnavailable):
            await classifier.classify("parcel")
