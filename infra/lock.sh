#!/bin/sh
# Pins every group of pyproject.toml into requirements/, hashed, without index addresses.
set -eu
uv=.venv/bin/uv
common="--generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate --universal --python-version 3.11 --quiet"
for group in gateway orchestrator burst_worker knowledge_refresh dlq_triage backlog_metric emulator loadtest local dev; do
  echo "requirements/$group.txt"
  # shellcheck disable=SC2086
  $uv pip compile pyproject.toml --extra "$group" $common -o "requirements/$group.txt"
done
