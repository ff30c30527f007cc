"""`python -m services.orchestrator.queue_runner`."""

from services.lifecycle import run_process
from services.orchestrator.queue_runner.composition import main

if __name__ == "__main__":
    run_process(main)
