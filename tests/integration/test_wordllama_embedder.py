from __future__ import annotations

import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from shared.adapters.wordllama_embedder import TEXT_LIMIT_CHARACTERS, WordLlamaEmbedder
from shared.errors import ConfigurationError


@pytest.fixture(scope="module")
def embedder() -> WordLlamaEmbedder:
    return WordLlamaEmbedder()


def test_embed_gives_float32_rows_of_length_one(embedder: WordLlamaEmbedder) -> None:
    vectors = embedder.embed(["where is my order", "鬼滅の刃", "x"])
    assert vectors.shape == (3, embedder.dimensions)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)


def test_embed_gives_zeros_for_an_empty_text_and_nothing_for_none(
    embedder: WordLlamaEmbedder,
) -> None:
    assert not embedder.embed([""]).any()
    assert embedder.embed([]).shape == (0, embedder.dimensions)


def test_embed_puts_like_beside_like(embedder: WordLlamaEmbedder) -> None:
    asked, near, far = embedder.embed(
        ["a pirate story", "tales of pirates at sea", "card declined"]
    )
    assert asked @ near > asked @ far + 0.2


def test_embed_reads_only_the_beginning_of_a_long_text(embedder: WordLlamaEmbedder) -> None:
    beginning = "whale " * (TEXT_LIMIT_CHARACTERS // 6) + "    "
    one, other = embedder.embed([beginning[:TEXT_LIMIT_CHARACTERS], beginning + "soup " * 9_000])
    assert np.allclose(one, other)


def test_embed_of_one_text_does_not_depend_on_its_neighbours(embedder: WordLlamaEmbedder) -> None:
    alone = embedder.embed(["whale song"])[0]
    beside = embedder.embed(["whale song", "a much longer text about soup and mountains"])[0]
    assert np.allclose(alone, beside, atol=1e-6)


def test_load_opens_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("the embedder opened a socket")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert WordLlamaEmbedder().embed(["offline"]).any()


def test_load_happens_once_when_many_threads_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = WordLlamaEmbedder()
    import shared.adapters.wordllama_embedder as module

    loads: list[object] = []
    load_model = module._load_model
    monkeypatch.setattr(module, "_load_model", lambda: loads.append(1) or load_model())
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(embedder.embed, [["whale"]] * 16))
    assert len(loads) == 1


def test_load_says_that_the_weights_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import wordllama

    def missing(*args: object, **kwargs: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(wordllama.WordLlama, "load", missing)
    with pytest.raises(ConfigurationError, match="without its weights"):
        WordLlamaEmbedder().load()


def test_load_leaves_the_root_logger_alone() -> None:
    program = (
        "import logging\n"
        "from shared.adapters.wordllama_embedder import WordLlamaEmbedder\n"
        "WordLlamaEmbedder().load()\n"
        "root = logging.getLogger()\n"
        "print(root.handlers, root.level == logging.WARNING)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[] True"
    assert answer.stderr == ""
