"""The knowledge bucket: the corpus below `documents/`, the indexes below `index/`.

All calls block for as long as their time-outs allow: an event loop runs them in a thread. A PUT to S3 replaces an
object as a whole or not at all, so a reader never sees half an index; versioning of the bucket keeps older ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING

import boto3
import msgspec
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from shared.contracts.knowledge import DOCUMENTS_PREFIX
from shared.errors import ChatError, DependencyUnavailable, IncompatibleIndex, MalformedDocument
from shared.policy.sigv4 import Credential

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

FILES_LIMIT = 10_000
FILE_LIMIT_BYTES = 1_048_576
CORPUS_LIMIT_BYTES = 67_108_864
INDEX_LIMIT_BYTES = 134_217_728
"""What a worker of the smallest memory can hold beside its turns."""
_NOT_MODIFIED = "304"
_ABSENT = ("NoSuchKey", "404")


class Artefact(msgspec.Struct, frozen=True):
    """An object's bytes and the ETag that names this state of it."""

    body: bytes
    etag: str


class NoArtefact(Enum):
    """Why there are no bytes."""

    UNCHANGED = "unchanged"
    ABSENT = "absent"


def connect_s3(
    *, region: str, endpoint_url: str, timeout_ms: int, credential: Credential | None = None
) -> S3Client:
    """A client whose connects and reads each end after `timeout_ms`, tried twice; empty `endpoint_url` = AWS.

    `credential` None = AWS's default chain.
    """
    return boto3.client(
        "s3",
        region_name=region,
        aws_access_key_id=credential.access_key_id if credential else None,
        aws_secret_access_key=credential.secret_access_key if credential else None,
        endpoint_url=endpoint_url or None,
        config=Config(
            connect_timeout=timeout_ms / 1_000,
            read_timeout=timeout_ms / 1_000,
            retries={"total_max_attempts": 2, "mode": "standard"},
            # Emulators have no virtual host per bucket.
            s3={"addressing_style": "path" if endpoint_url else "auto"},
        ),
    )


class S3Artefacts:
    """Lists and reads the corpus, reads and replaces the index at `index_key`.

    Raises DependencyUnavailable when S3 fails.
    """

    def __init__(self, client: S3Client, bucket: str, index_key: str) -> None:
        self._client = client
        self._bucket = bucket
        self._index_key = index_key

    def list_files(self) -> Mapping[str, str]:
        """The ETag of each corpus file by its name below `documents/`.

        Raises MalformedDocument above FILES_LIMIT files or CORPUS_LIMIT_BYTES, or for a file above FILE_LIMIT_BYTES.
        """
        etags: dict[str, str] = {}
        total_bytes = 0
        with _translated("list the corpus"):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=DOCUMENTS_PREFIX
            )
            for page in pages:
                for item in page.get("Contents", ()):
                    name = item["Key"].removeprefix(DOCUMENTS_PREFIX)
                    if item["Size"] > FILE_LIMIT_BYTES:
                        raise MalformedDocument(name, 0, f"is above {FILE_LIMIT_BYTES} bytes")
                    if name and not name.endswith("/"):
                        etags[name] = item["ETag"]
                        total_bytes += item["Size"]
                if len(etags) > FILES_LIMIT:
                    raise MalformedDocument("corpus", 0, f"holds more than {FILES_LIMIT} files")
                if total_bytes > CORPUS_LIMIT_BYTES:
                    raise MalformedDocument("corpus", 0, f"is above {CORPUS_LIMIT_BYTES} bytes")
        return etags

    def read_file(self, name: str) -> Artefact:
        """One corpus file as it is now; its ETag may be newer than the one that was listed.

        Raises MalformedDocument above FILE_LIMIT_BYTES.
        """
        too_large = MalformedDocument(name, 0, f"is above {FILE_LIMIT_BYTES} bytes")
        found = self._get(DOCUMENTS_PREFIX + name, None, FILE_LIMIT_BYTES, too_large)
        if isinstance(found, NoArtefact):
            # Deleted since it was listed: the next look will not list it.
            raise DependencyUnavailable(f"{name} vanished while the corpus was read")
        return found

    def read_index(self, known_etag: str | None) -> Artefact | NoArtefact:
        """The index in use, UNCHANGED when it is still the one of `known_etag`.

        Raises IncompatibleIndex, reading nothing, above INDEX_LIMIT_BYTES.
        """
        too_large = IncompatibleIndex(f"the index is above {INDEX_LIMIT_BYTES} bytes")
        return self._get(self._index_key, known_etag, INDEX_LIMIT_BYTES, too_large)

    def replace_index(self, body: bytes) -> str:
        """Put a new index in use, as a whole; answers its ETag. Two writers at once: the last one wins."""
        with _translated("write the index"):
            answer = self._client.put_object(
                Bucket=self._bucket,
                Key=self._index_key,
                Body=body,
                ContentType="application/octet-stream",
            )
        return answer["ETag"]

    def _get(
        self, key: str, known_etag: str | None, limit_bytes: int, too_large: ChatError
    ) -> Artefact | NoArtefact:
        with _translated(f"read {key}"):
            try:
                if known_etag is None:
                    answer = self._client.get_object(Bucket=self._bucket, Key=key)
                else:
                    answer = self._client.get_object(
                        Bucket=self._bucket, Key=key, IfNoneMatch=known_etag
                    )
            except ClientError as error:
                code = error.response.get("Error", {}).get("Code", "")
                if code == _NOT_MODIFIED:
                    return NoArtefact.UNCHANGED
                if code in _ABSENT:
                    return NoArtefact.ABSENT
                raise
            if answer["ContentLength"] > limit_bytes:
                answer["Body"].close()
                raise too_large
            return Artefact(answer["Body"].read(), answer["ETag"])


@contextmanager
def _translated(action: str) -> Iterator[None]:
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise DependencyUnavailable(f"S3 did not {action}") from error
