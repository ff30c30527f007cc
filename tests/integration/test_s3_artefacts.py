from __future__ import annotations

import socket
from collections.abc import Iterator
from threading import Thread
from time import perf_counter

import boto3
import pytest

from shared.adapters import s3_artefacts
from shared.adapters.s3_artefacts import Artefact, NoArtefact, S3Artefacts, connect_s3
from shared.errors import DependencyUnavailable, IncompatibleIndex, MalformedDocument
from tests.fakes.knowledge_bucket import BUCKET, INDEX, KnowledgeBucket, knowledge_bucket


@pytest.fixture
def bucket() -> Iterator[KnowledgeBucket]:
    with knowledge_bucket() as made:
        yield made


def test_list_files_names_each_file_below_the_prefix_over_all_pages(
    bucket: KnowledgeBucket,
) -> None:
    bucket.put({f"series/{number}.md": b"x" for number in range(1_100)})
    bucket.client.put_object(Bucket=BUCKET, Key="documents/series/", Body=b"")
    bucket.client.put_object(Bucket=BUCKET, Key="other/file.md", Body=b"x")
    files = bucket.artefacts.list_files()
    assert len(files) == 1_100
    assert set(files.values()) == {bucket.artefacts.read_file("series/7.md").etag}


def test_list_files_refuses_a_corpus_without_bounds(
    bucket: KnowledgeBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.put({"a.md": b"1234", "b.md": b"1", "c.md": b"1"})
    monkeypatch.setattr(s3_artefacts, "FILES_LIMIT", 2)
    with pytest.raises(MalformedDocument, match="more than 2 files"):
        bucket.artefacts.list_files()
    monkeypatch.setattr(s3_artefacts, "CORPUS_LIMIT_BYTES", 5)
    monkeypatch.setattr(s3_artefacts, "FILES_LIMIT", 3)
    with pytest.raises(MalformedDocument, match="corpus: is above 5 bytes"):
        bucket.artefacts.list_files()
    monkeypatch.setattr(s3_artefacts, "FILE_LIMIT_BYTES", 3)
    with pytest.raises(MalformedDocument, match=r"a\.md: is above 3 bytes"):
        bucket.artefacts.list_files()
    with pytest.raises(MalformedDocument, match=r"a\.md: is above 3 bytes"):
        bucket.artefacts.read_file("a.md")


def test_read_index_refuses_one_without_bounds(
    bucket: KnowledgeBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.artefacts.replace_index(b"1234")
    monkeypatch.setattr(s3_artefacts, "INDEX_LIMIT_BYTES", 3)
    with pytest.raises(IncompatibleIndex, match="above 3 bytes"):
        bucket.artefacts.read_index(None)


def test_read_file_gives_content_and_etag(bucket: KnowledgeBucket) -> None:
    bucket.put({"a.md": b"one"})
    first = bucket.artefacts.read_file("a.md")
    bucket.put({"a.md": b"two"})
    second = bucket.artefacts.read_file("a.md")
    assert (first.body, second.body) == (b"one", b"two")
    assert first.etag != second.etag


def test_read_file_of_a_vanished_file_asks_for_another_try(bucket: KnowledgeBucket) -> None:
    with pytest.raises(DependencyUnavailable, match=r"a\.md vanished"):
        bucket.artefacts.read_file("a.md")


def test_read_index_is_absent_then_new_then_unchanged(bucket: KnowledgeBucket) -> None:
    assert bucket.artefacts.read_index(None) is NoArtefact.ABSENT
    assert bucket.artefacts.read_index('"0123"') is NoArtefact.ABSENT
    etag = bucket.artefacts.replace_index(b"index")
    assert bucket.artefacts.read_index(None) == Artefact(b"index", etag)
    assert bucket.artefacts.read_index(etag) is NoArtefact.UNCHANGED
    assert bucket.artefacts.read_index('"0123"') == Artefact(b"index", etag)


def test_a_missing_bucket_is_not_a_missing_index(bucket: KnowledgeBucket) -> None:
    elsewhere = S3Artefacts(bucket.client, "no-such-bucket", INDEX)
    with pytest.raises(DependencyUnavailable):
        elsewhere.read_index(None)
    with pytest.raises(DependencyUnavailable):
        elsewhere.list_files()
    with pytest.raises(DependencyUnavailable):
        elsewhere.replace_index(b"index")


@pytest.fixture
def silent_endpoint() -> Iterator[str]:
    """Accepts connections and never answers."""
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    held.append(server.accept()[0])
                except OSError:
                    return

        thread = Thread(target=accept)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    for connection in held:
        connection.close()


def test_a_silent_s3_is_given_up_in_time(
    silent_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    client = connect_s3(region="us-east-1", endpoint_url=silent_endpoint, timeout_ms=50)
    started = perf_counter()
    with pytest.raises(DependencyUnavailable):
        S3Artefacts(client, BUCKET, INDEX).read_index(None)
    assert perf_counter() - started < 10
    client.close()
