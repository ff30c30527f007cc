"""Port Orders from S3: one object per user, so that no question can reach another user's orders.

`<prefix><tenant>/<user>.json` holds `{"orders": […]}`, newest first; tenant and user are percent-encoded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec
from botocore.exceptions import BotoCoreError, ClientError

from shared.contracts.identifiers import TenantId, UserId
from shared.contracts.orders import Order
from shared.errors import DependencyUnavailable

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

READS_AT_ONCE: Final = 4
READS_WAITING: Final = 16
"""More are refused at once: their question would be answered without orders anyway."""
OBJECT_LIMIT_BYTES: Final = 262_144
_ABSENT = ("NoSuchKey", "404")


class _Shelf(msgspec.Struct, frozen=True):
    orders: tuple[Order, ...]


_decode = msgspec.json.Decoder(_Shelf).decode


class S3Orders:
    """Reads in threads of its own. A reader that gave up leaves its thread to the client's time-out."""

    def __init__(self, client: S3Client, bucket: str, prefix: str) -> None:
        self._client = client
        self._bucket = bucket
        self._prefix = prefix
        self._threads = ThreadPoolExecutor(READS_AT_ONCE, thread_name_prefix="orders")
        self._open = 0

    async def of_user(self, tenant: TenantId, user: UserId, limit: int) -> Sequence[Order]:
        """The user's newest orders, none when there is no such object. Raises DependencyUnavailable."""
        if self._open >= READS_AT_ONCE + READS_WAITING:
            raise DependencyUnavailable("too many reads of orders are under way")
        self._open += 1
        key = orders_key(self._prefix, tenant, user)
        reading = asyncio.get_running_loop().run_in_executor(self._threads, self._read, key)
        reading.add_done_callback(self._note_end)
        # Shielded: a cancelled future would look ended while its thread still reads.
        return (await asyncio.shield(reading))[:limit]

    def close(self) -> None:
        """Start no more reads; does not wait for those under way. Idempotent."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _note_end(self, reading: asyncio.Future[tuple[Order, ...]]) -> None:
        self._open -= 1
        if not reading.cancelled():
            reading.exception()  # its reader may be gone: nobody else would take it

    def _read(self, key: str) -> tuple[Order, ...]:
        try:
            answer = self._client.get_object(Bucket=self._bucket, Key=key)
            if answer["ContentLength"] > OBJECT_LIMIT_BYTES:
                raise DependencyUnavailable(f"an orders object is above {OBJECT_LIMIT_BYTES} bytes")
            return _decode(answer["Body"].read()).orders
        except ClientError as error:
            if error.response.get("Error", {}).get("Code", "") in _ABSENT:
                return ()
            raise DependencyUnavailable("S3 did not read a user's orders") from error
        except BotoCoreError as error:
            raise DependencyUnavailable("S3 did not read a user's orders") from error
        except msgspec.MsgspecError as error:
            raise DependencyUnavailable("a user's orders cannot be read") from error


def orders_key(prefix: str, tenant: str, user: str) -> str:
    """The object of one user; a name can neither leave its folder nor be another's."""
    return f"{prefix}{_segment(tenant)}/{_segment(user)}.json"


def _segment(name: str) -> str:
    return quote(name, safe="").replace(".", "%2E")
