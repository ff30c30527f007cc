from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import msgspec
import pytest

from functions.knowledge_refresh.refresh import Fault, RefreshReport, refresh_index
from shared.adapters import s3_artefacts, s3_index_repository
from shared.adapters.index_artefact import index_key
from shared.adapters.index_retriever import IndexRetriever
from shared.adapters.index_sources import S3IndexSource
from shared.adapters.s3_artefacts import Artefact, S3Artefacts
from shared.adapters.s3_index_repository import S3IndexRepository
from shared.adapters.watched_index import WatchedIndex
from shared.adapters.wordllama_embedder import WordLlamaEmbedder
from shared.errors import DependencyUnavailable
from tests.fakes.clock import FakeClock
from tests.fakes.knowledge import FakeEmbedder, series_document, small_corpus
from tests.fakes.knowledge_bucket import BUCKET, INDEX, KnowledgeBucket, knowledge_bucket


@pytest.fixture
def bucket() -> Iterator[KnowledgeBucket]:
    with knowledge_bucket() as made:
        made.put(small_corpus())
        yield made


def refresh(bucket: KnowledgeBucket, embedder: FakeEmbedder | None = None) -> RefreshReport:
    repository = S3IndexRepository(bucket.artefacts, embedder or FakeEmbedder())
    return refresh_index(bucket.artefacts, repository)


def index_bytes(bucket: KnowledgeBucket) -> bytes:
    found = bucket.artefacts.read_index(None)
    assert isinstance(found, Artefact)
    return found.body


def written_at(bucket: KnowledgeBucket) -> object:
    return bucket.client.head_object(Bucket=BUCKET, Key=INDEX)["LastModified"]


def test_the_first_refresh_reports_everything_as_added(bucket: KnowledgeBucket) -> None:
    report = refresh(bucket)
    assert report.status == "replaced"
    assert report.added == tuple(sorted(small_corpus()))
    assert (report.documents, report.passages, report.examples) == (3, 4, 10)


def test_an_unchanged_corpus_is_not_written_again(
    bucket: KnowledgeBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    refresh(bucket)
    bucket.put({"queries.jsonl": b"{}", "README.md": b"notes"})

    def refuse(body: bytes) -> str:
        raise AssertionError("written although nothing changed")

    monkeypatch.setattr(bucket.artefacts, "replace_index", refuse)
    assert refresh(bucket) == RefreshReport(status="unchanged")


def test_a_refresh_tells_what_came_changed_and_went(bucket: KnowledgeBucket) -> None:
    refresh(bucket)
    bucket.put({"series/new.md": series_document("new", title="New")})
    bucket.put({"series/sea-song.md": series_document(volumes="4")})
    bucket.delete("series/iron-kettle.md")
    report = refresh(bucket)
    assert report.added == ("series/new.md",)
    assert report.changed == ("series/sea-song.md",)
    assert report.removed == ("series/iron-kettle.md",)


async def test_a_changed_fact_is_found_after_the_refresh(bucket: KnowledgeBucket) -> None:
    embedder = WordLlamaEmbedder()
    repository = S3IndexRepository(bucket.artefacts, embedder)
    source = S3IndexSource(bucket.artefacts, embedder)
    watched = WatchedIndex(source, FakeClock(), poll_interval_ms=1_000)
    retriever = IndexRetriever(watched.current, embedder)
    question = "how many volumes does sea song have"

    refresh_index(bucket.artefacts, repository)
    await watched.refresh()
    assert "Volumes: 3." in (await retriever.search(question, 1))[0].text

    bucket.put({"series/sea-song.md": series_document(volumes="4")})
    assert refresh_index(bucket.artefacts, repository).changed == ("series/sea-song.md",)
    assert await watched.refresh() is True
    assert "Volumes: 4." in (await retriever.search(question, 1))[0].text


def test_broken_documents_are_named_and_the_old_index_stays(bucket: KnowledgeBucket) -> None:
    refresh(bucket)
    before = index_bytes(bucket)
    bucket.put(
        {
            "series/sea-song.md": b"---\nid: sea-song\ntitle Sea Song\n---\nText",
            "series/bad.md": b"no front matter",
            "series/fine.md": series_document("fine", title="Fine"),
        }
    )
    report = refresh(bucket)
    assert report.status == "refused"
    assert [(fault.document, fault.line) for fault in report.faults] == [
        ("series/bad.md", 1),
        ("series/sea-song.md", 3),
    ]
    assert index_bytes(bucket) == before


def test_an_empty_corpus_is_refused_and_the_old_index_stays(bucket: KnowledgeBucket) -> None:
    refresh(bucket)
    before = index_bytes(bucket)
    for name in small_corpus():
        bucket.delete(name)
    report = refresh(bucket)
    assert report.status == "refused"
    assert report.faults[0] == Fault("corpus", 0, "holds no documents")
    assert index_bytes(bucket) == before


def test_a_corpus_without_bounds_is_refused(
    bucket: KnowledgeBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_artefacts, "FILES_LIMIT", 3)
    report = refresh(bucket)
    assert report.status == "refused"
    assert "more than 3 files" in report.faults[0].reason


def test_an_index_too_large_for_its_readers_is_refused_and_the_old_one_stays(
    bucket: KnowledgeBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    refresh(bucket)
    before = index_bytes(bucket)
    bucket.put({"series/new.md": series_document("new", title="New")})
    monkeypatch.setattr(s3_index_repository, "INDEX_LIMIT_BYTES", len(before))
    report = refresh(bucket)
    assert report.status == "refused"
    assert f"more than {len(before)}" in report.faults[0].reason
    assert index_bytes(bucket) == before


@pytest.mark.parametrize("missing", ["prompt.md", "assistant.json", "intents/shipping.txt"])
def test_a_missing_file_is_named_and_the_old_index_stays(
    bucket: KnowledgeBucket, missing: str
) -> None:
    refresh(bucket)
    before = index_bytes(bucket)
    bucket.delete(missing)
    report = refresh(bucket)
    assert report.status == "refused"
    assert [missing.startswith(fault.document) for fault in report.faults] == [True]
    assert index_bytes(bucket) == before


@pytest.mark.parametrize("damaged", [b"", b"not an index"])
def test_a_useless_index_is_replaced(bucket: KnowledgeBucket, damaged: bytes) -> None:
    bucket.artefacts.replace_index(damaged)
    assert refresh(bucket).status == "replaced"
    assert refresh(bucket).status == "unchanged"


def test_an_index_of_another_embedding_is_replaced(bucket: KnowledgeBucket) -> None:
    refresh(bucket)
    report = refresh(bucket, FakeEmbedder(32, name="fake-32"))
    assert report.status == "replaced"
    assert report.documents == 3


async def test_workers_of_an_older_version_keep_their_index_beside_the_new_one(
    bucket: KnowledgeBucket,
) -> None:
    old, new = FakeEmbedder(), FakeEmbedder(32, name="fake-32")
    places = {
        embedder.name: S3Artefacts(bucket.client, BUCKET, index_key(embedder.name))
        for embedder in (old, new)
    }
    refresh_index(bucket.artefacts, S3IndexRepository(places[old.name], old))
    refresh_index(bucket.artefacts, S3IndexRepository(places[new.name], new))
    for embedder in (old, new):
        watched = WatchedIndex(
            S3IndexSource(places[embedder.name], embedder), FakeClock(), poll_interval_ms=1_000
        )
        await watched.refresh()
        assert watched.current().embedding == embedder.name


@pytest.mark.parametrize("broken", ["list_files", "read_file", "read_index", "replace_index"])
def test_a_failing_s3_is_raised_and_the_old_index_stays(
    bucket: KnowledgeBucket, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    refresh(bucket)
    before = index_bytes(bucket)
    bucket.put({"series/new.md": series_document("new", title="New")})

    def fail(*args: object) -> None:
        raise DependencyUnavailable("S3 is down")

    with monkeypatch.context() as context:
        context.setattr(bucket.artefacts, broken, fail)
        with pytest.raises(DependencyUnavailable):
            refresh(bucket)
    assert index_bytes(bucket) == before


def test_a_file_that_changes_while_it_is_read_is_seen_by_the_next_refresh(
    bucket: KnowledgeBucket,
) -> None:
    class SlowFiles:
        def list_files(self) -> Mapping[str, str]:
            listed = bucket.artefacts.list_files()
            bucket.put({"series/sea-song.md": series_document(volumes="4")})
            return listed

        def read_file(self, name: str) -> Artefact:
            return bucket.artefacts.read_file(name)

    refresh_index(SlowFiles(), S3IndexRepository(bucket.artefacts, FakeEmbedder()))
    assert refresh(bucket).status == "unchanged"
    bucket.put({"series/sea-song.md": series_document(volumes="5")})
    assert refresh(bucket).changed == ("series/sea-song.md",)


def test_a_report_is_plain_json(bucket: KnowledgeBucket) -> None:
    assert json.loads(json.dumps(msgspec.to_builtins(refresh(bucket))))["status"] == "replaced"
