"""Orders to try questions on: files whose days are told from today, so that a parcel under way stays under way."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

_DAY = re.compile(r"\{today([+-]\d+)?\}")


def with_days(text: str, today: date) -> str:
    """`text` with `{today}`, `{today-3}` and `{today+2}` as ISO dates."""
    return _DAY.sub(lambda found: (today + timedelta(days=int(found[1] or 0))).isoformat(), text)


def sample_orders(folder: Path, today: date) -> Iterator[tuple[str, bytes]]:
    """`<tenant>/<user>.json` → content, for every file below `folder`."""
    for path in sorted(folder.glob("*/*.json")):
        yield path.relative_to(folder).as_posix(), with_days(path.read_text(), today).encode()
