# The one door. `make` alone prints the verbs.
PYTHON ?= python3
BIN := .venv/bin
SEEDS ?= 2000
CONSUMER ?= lambda
.DEFAULT_GOAL := help
.PHONY: help run check test e2e simulate chaos mutants evaluate package burst loadtest-ui docs lock clean \
	set-up set-up-dev

help: ## print the verbs
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

set-up:
	@$(PYTHON) infra/set_up.py local

set-up-dev:
	@$(PYTHON) infra/set_up.py dev

run: set-up ## start the whole stack here and chat in the browser; Ctrl-C stops it
	@exec $(BIN)/burstchat run

check: set-up-dev ## fast gate: format, lint, types, imports, templates, unit tests (under a minute)
	@$(BIN)/python -m infra.check

test: set-up-dev ## everything, on a bare machine too (under twelve minutes)
	@$(PYTHON) infra/set_up.py chromium
	@$(BIN)/python -m infra.suite

e2e: set-up-dev ## CONSUMER=ecs runs the end-to-end tests with no burst worker deployed
	@BURSTCHAT_BURST_CONSUMER=$(CONSUMER) $(BIN)/pytest -q tests/e2e

simulate: set-up-dev ## SEEDS=2000 runs of the whole system on a virtual clock, each with faults of its own
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS)

chaos: set-up-dev ## kill and stop real processes under real users; prints what the users were left with
	@$(BIN)/python -m tests.chaos

mutants: set-up-dev ## plant every known fault and demand red tests
	@$(BIN)/python -m tests.mutants

evaluate: set-up-dev ## measure intents and retrieval on the documents in knowledge/
	@$(BIN)/python -m ops.evaluation

package: set-up ## build the Lambda bundles and print their sizes
	@$(BIN)/python -m infra.package

burst: set-up-dev ## ten times the traffic within ten seconds; prints who answered what
	@$(BIN)/python -m loadtest.burst

loadtest-ui: set-up-dev ## Locust's page against the running stack
	@$(BIN)/python -m loadtest.page

docs: set-up-dev ## write the generated pages (docs/settings.md)
	@$(BIN)/python -m ops.settings_page > docs/settings.md

lock: set-up-dev ## pin pyproject.toml's groups into requirements/
	@sh infra/lock.sh

clean: ## remove everything that the other verbs made
	@rm -rf .venv .venv-emulator build var .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
