"""`python -m services.gateway`."""

from services.gateway.composition import main
from services.lifecycle import run_process

if __name__ == "__main__":
    run_process(main)
