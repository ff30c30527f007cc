"""A knowledge bucket in moto, so that the real SDK runs against it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import boto3
from moto import mock_aws

from shared.adapters.s3_artefacts import S3Artefacts, connect_s3
from shared.contracts.knowledge import DOCUMENTS_PREFIX

BUCKET = "knowledge"
INDEX = "index/of-the-tests"


class KnowledgeBucket:
    """The bucket as a person and as the adapter sees it."""

    def __init__(self) -> None:
        self.client: Any = connect_s3(region="us-east-1", endpoint_url="", timeout_ms=2_000)
        self.client.create_bucket(Bucket=BUCKET)
        self.artefacts = S3Artefacts(self.client, BUCKET, INDEX)

    def put(self, files: Mapping[str, bytes]) -> None:
        for name, body in files.items():
            self.client.put_object(Bucket=BUCKET, Key=DOCUMENTS_PREFIX + name, Body=body)

    def delete(self, name: str) -> None:
        self.client.delete_object(Bucket=BUCKET, Key=DOCUMENTS_PREFIX + name)


@contextmanager
def knowledge_bucket() -> Iterator[KnowledgeBucket]:
    """An empty bucket with dummy credentials, gone afterwards."""
    with mock_aws():
        boto3.setup_default_session(aws_access_key_id="test", aws_secret_access_key="test")
        try:
            yield KnowledgeBucket()
        finally:
            boto3.DEFAULT_SESSION = None
