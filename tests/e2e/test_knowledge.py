"""What the assistant knows comes from the documents: change a fact, refresh, and the answer changes."""

from __future__ import annotations

import asyncio
import json

from tests.harness.chat import chat
from tests.harness.stack import Stack

QUESTION = "How many volumes does Fullmetal Alchemist have?"
DOCUMENT = "documents/series/fullmetal-alchemist.md"


async def test_changed_fact_changes_the_answer_after_a_refresh(stack: Stack) -> None:
    before, sources = await _ask(stack)
    assert "27" in before
    assert any("Fullmetal" in source["title"] for source in sources)

    s3, bucket = stack.aws("s3"), _knowledge_bucket(stack)
    original = s3.get_object(Bucket=bucket, Key=DOCUMENT)["Body"].read()
    assert b"27" in original
    try:
        s3.put_object(Bucket=bucket, Key=DOCUMENT, Body=original.replace(b"27", b"31"))
        report = _refresh(stack)
        assert "series/fullmetal-alchemist.md" in json.dumps(report)
        await _until_the_answer_names(stack, "31")
    finally:
        s3.put_object(Bucket=bucket, Key=DOCUMENT, Body=original)
        _refresh(stack)
    await _until_the_answer_names(stack, "27")


async def test_broken_document_is_named_and_the_old_index_stays(stack: Stack) -> None:
    s3, bucket = stack.aws("s3"), _knowledge_bucket(stack)
    s3.put_object(Bucket=bucket, Key="documents/series/broken.md", Body=b"no front matter here")
    try:
        assert "series/broken.md" in json.dumps(_refresh(stack))
        assert "27" in (await _ask(stack))[0]
    finally:
        s3.delete_object(Bucket=bucket, Key="documents/series/broken.md")
        _refresh(stack)


async def _until_the_answer_names(stack: Stack, number: str) -> None:
    """Workers look for a new index twice a second."""
    async with asyncio.timeout(20):
        while number not in (await _ask(stack))[0]:
            await asyncio.sleep(0.5)


async def _ask(stack: Stack) -> tuple[str, list[dict[str, str]]]:
    async with chat(stack.chat_url) as client:
        turn_id = (await client.accepted(await client.send(QUESTION)))["turn_id"]
        completed = await client.end(turn_id)
        return client.text(turn_id), completed["sources"]


def _refresh(stack: Stack) -> dict[str, object]:
    functions = stack.aws("lambda")
    name = next(
        found["FunctionName"]
        for found in functions.list_functions()["Functions"]
        if "refresh" in found["FunctionName"]
    )
    answer = functions.invoke(FunctionName=name, Payload=b"{}")
    return json.loads(answer["Payload"].read())


def _knowledge_bucket(stack: Stack) -> str:
    return next(
        found["Name"]
        for found in stack.aws("s3").list_buckets()["Buckets"]
        if "knowledge" in found["Name"]
    )
