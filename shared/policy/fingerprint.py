"""What makes two failures the same failure."""

from __future__ import annotations

import hashlib
import re

_PLACE = re.compile(r":\d+:")
_FINGERPRINT_CHARACTERS = 16


def fingerprint(error_type: str, stack: str) -> str:
    """16 hex characters of the error's type and its stack without line numbers, so that a moved line stays known."""
    normalised = _PLACE.sub(":", stack)
    digest = hashlib.sha256(f"{error_type}\n{normalised}".encode())
    return digest.hexdigest()[:_FINGERPRINT_CHARACTERS]
