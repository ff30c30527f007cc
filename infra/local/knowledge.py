"""Documents into the bucket, and the index out of them: built by the function, kept for the next start."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Final

from botocore.exceptions import BotoCoreError, ClientError

from infra.local.aws import connect
from infra.local.errors import StackError
from infra.local.sample_orders import sample_orders
from infra.package import Bundle
from shared.contracts.knowledge import DOCUMENTS_PREFIX, INDEX_PREFIX
from shared.policy.corpus import CorpusRefused, is_corpus_file, read_corpus

_TOLD_FAULTS: Final = 20
_UPLOADS: Final = 8


def read_documents(folder: Path) -> dict[str, bytes]:
    """Every file of the corpus by its path below the folder.

    Raises StackError for no folder and for a corpus that an index cannot be built from, one sentence for each fault.
    """
    if not folder.is_dir():
        raise StackError(f"BURSTCHAT_KNOWLEDGE_DIR: there is no folder {folder}")
    files = dict(_corpus(folder))
    try:
        read_corpus(files)
    except CorpusRefused as refusal:
        told = [str(fault) for fault in refusal.faults[:_TOLD_FAULTS]]
        if len(refusal.faults) > _TOLD_FAULTS:
            told.append(f"and {len(refusal.faults) - _TOLD_FAULTS} more")
        raise StackError(f"{folder} cannot be used: {'; '.join(told)}") from refusal
    return files


class KnowledgeSeeder:
    """Seeds one bucket of one emulator. Raises StackError for no folder, and when the corpus is refused.

    The emulator forgets everything at each start, and building the index takes seconds; so a kept index
    is put back when neither a document nor the function that builds it has changed.
    """

    def __init__(
        self,
        folder: Path,
        cache: Path,
        endpoint_url: str,
        builder: Bundle,
        *,
        today: date,
        orders_prefix: str,
    ) -> None:
        self._files = read_documents(folder)
        self._orders = {
            orders_prefix + name: body for name, body in sample_orders(folder / "orders", today)
        }
        self._cache = cache
        self._mark = f"index-{self._fingerprint(builder)}@"
        self._endpoint_url = endpoint_url
        self._s3 = connect("s3", endpoint_url)

    def seed(self, bucket: str, function: str) -> None:
        """Upload documents and sample orders, then restore the index or have `function` build it."""
        try:
            self._upload(bucket)
            kept = next(self._cache.glob(f"{self._mark}*"), None)
            if kept is not None:
                key = INDEX_PREFIX + kept.name.removeprefix(self._mark)
                self._s3.put_object(Bucket=bucket, Key=key, Body=kept.read_bytes())
            else:
                self._build(function)
                self._keep(bucket)
        except (BotoCoreError, ClientError) as error:
            raise StackError(f"the knowledge bucket could not be seeded: {error}") from error

    def _upload(self, bucket: str) -> None:
        objects = {DOCUMENTS_PREFIX + name: body for name, body in self._files.items()}

        def put(item: tuple[str, bytes]) -> None:
            self._s3.put_object(Bucket=bucket, Key=item[0], Body=item[1])

        with ThreadPoolExecutor(_UPLOADS) as uploads:
            # Read to the end, as a failure is raised only when its result is asked for.
            list(uploads.map(put, (objects | self._orders).items()))

    def _build(self, function: str) -> None:
        answer = connect("lambda", self._endpoint_url).invoke(FunctionName=function, Payload=b"{}")
        body = json.loads(answer["Payload"].read())
        if answer.get("FunctionError") or body.get("status") == "refused":
            raise StackError(f"{function} built no index: {json.dumps(body)[:1_000]}")

    def _keep(self, bucket: str) -> None:
        """Keep the one index of the bucket under the name that its builder gave it."""
        (found,) = self._s3.list_objects_v2(Bucket=bucket, Prefix=INDEX_PREFIX)["Contents"]
        index = self._s3.get_object(Bucket=bucket, Key=found["Key"])["Body"].read()
        self._cache.mkdir(parents=True, exist_ok=True)
        for older in self._cache.glob("index-*"):
            older.unlink(missing_ok=True)
        draft = self._cache / "draft"
        draft.write_bytes(index)
        draft.replace(self._cache / (self._mark + found["Key"].removeprefix(INDEX_PREFIX)))

    def _fingerprint(self, builder: Bundle) -> str:
        digest = hashlib.sha256(builder.content_hash.encode())
        for name, body in sorted(self._files.items()):
            digest.update(name.encode() + b"\0" + hashlib.sha256(body).digest())
        return digest.hexdigest()[:16]


def _corpus(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and is_corpus_file(name):
            yield name, path.read_bytes()
