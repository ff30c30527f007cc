"""Measure the assistant on labelled texts: `python -m ops.evaluation [knowledge folder]`.

One module measures one part and gives one table; a part whose labelled texts a folder lacks is left out.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from ops.evaluation.follow_ups import measure_follow_ups
from ops.evaluation.guardrails import measure_guardrails
from ops.evaluation.intents import measure_intents
from ops.evaluation.retrieval import measure_retrieval
from ops.evaluation.subject import read_subject
from ops.evaluation.table import table_lines

TABLES = (measure_intents, measure_retrieval, measure_follow_ups, measure_guardrails)


async def print_tables(folder: Path) -> None:
    """Print the table of every part."""
    subject = read_subject(folder)
    for measure in TABLES:
        table = await measure(subject)
        if table is not None:
            print(*("", *table_lines(table)), sep="\n")


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(prog="evaluate", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("knowledge"))
    asyncio.run(print_tables(parser.parse_args().folder))


if __name__ == "__main__":
    main()
