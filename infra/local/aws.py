"""Clients of the stack's own AWS emulator."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config

from infra.local.environment import AWS_KEY, AWS_REGION

_CONFIG = Config(
    connect_timeout=2,
    read_timeout=60,
    retries={"total_max_attempts": 2},
    s3={"addressing_style": "path"},
)


def connect(service: str, endpoint_url: str) -> Any:
    """A boto3 client that cannot reach an account, whatever the person's environment says."""
    session: Any = boto3.session.Session(
        aws_access_key_id=AWS_KEY, aws_secret_access_key=AWS_KEY, region_name=AWS_REGION
    )
    return session.client(service, endpoint_url=endpoint_url, config=_CONFIG)
