"""`python -m services.orchestrator`."""

from services.lifecycle import run_process
from services.orchestrator.composition import main

if __name__ == "__main__":
    run_process(main)
