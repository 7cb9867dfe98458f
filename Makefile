# `make demo` and `make test` need Python 3.11 or newer, its venv module and make; everything else they fetch themselves.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready
# What is fetched has to have one of the hashes of constraints.txt. An editable project has none, so it comes after.
PIP = $(1)/bin/python -m pip install --quiet --disable-pip-version-check
LOCKED = $(PIP) --require-hashes --requirement constraints.txt \
	&& $(PIP) --no-deps --no-build-isolation --editable .

.DEFAULT_GOAL := help
.PHONY: help venv demo test test-long check audit sbom docs conformance hosts page-test crash faults power bench requirements constraints clean

help: ## show what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(READY) ## create .venv with the exact versions and hashes of constraints.txt

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Kingly Memory needs Python 3.11 or newer; name one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "preparing $(VENV) (once)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(call LOCKED,$(VENV))
	@touch $@

demo: $(READY) ## the whole story in under a minute: store, search, lose the remote, go on, get it back
	@$(VENV)/bin/kingly-memory demo

# Where an environment forbids bytecode, hundreds of processes that tests start would each compile the package anew.
export PYTHONDONTWRITEBYTECODE :=

# Tests keep their files in memory where a gigabyte is free there and programs may be run: no disk has to confirm each
# write. The test of power cuts brings a disk of its own. What a test that passed has left is removed at once.
MEMORY := $(shell [ -w /dev/shm ] && ! grep -q ' /dev/shm .*noexec' /proc/mounts && df -Pk /dev/shm | awk 'END { if ($$4 > 1000000) print "/dev/shm" }')
IN_MEMORY = PYTEST_DEBUG_TEMPROOT=$(MEMORY) $(RUN) -m pytest --override-ini tmp_path_retention_policy=failed

# With an arena for each thread, glibc keeps three times the memory that the tests of many threads use.
test: $(READY) ## run the tests, three files at a time: they also wait for processes
	MALLOC_ARENA_MAX=2 $(IN_MEMORY) --numprocesses 3 --dist loadfile

test-long: $(READY) ## the same with sixteen times as many examples of the property tests, other ones each time
	HYPOTHESIS_PROFILE=long $(RUN) -m pytest --numprocesses 2 --dist loadfile

check: $(READY) ## format, lint, strict types, import order, known weaknesses of dependencies
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .
	$(RUN) -m mypy
	$(RUN) -m pytest -q tests/test_structure.py
	@$(MAKE) --no-print-directory audit

audit: $(READY) ## known weaknesses of the pinned dependencies, where somebody can be asked
	@$(RUN) tools/audit.py constraints.txt

sbom: $(READY) ## a bill of materials of the package with all its extras, as CycloneDX, on standard output
	@$(RUN) -m tools.sbom all

conformance: $(READY) ## frameworks' own tests on our stores, and what an installer makes of us (asks the package index); one: ONLY=crewai
	$(RUN) -m pytest -m conformance --numprocesses 2 --dist loadfile $(if $(ONLY),-k '$(ONLY)')

hosts: $(READY) ## whole loops with assistants' own programs (needs npm) against a model on loopback
	@mkdir -p .hosts && cp tests/hosts/live/package.json .hosts
	@cd .hosts && npm install --silent --ignore-scripts --no-package-lock --no-audit --no-fund
	$(RUN) -m pytest -m hosts

page-test: $(READY) ## the whole page in a browser over 10,000 memories, with axe-core (npm) for barriers, and at 100,000
	@mkdir -p .page && cp tests/page/axe/package.json .page
	-@cd .page && npm install --silent --ignore-scripts --no-package-lock --no-audit --no-fund
	$(RUN) -m pytest -m page -rs -s tests/page

crash: $(READY) ## the long kill run: hundreds of kills, nothing lost, everything applied once
	$(RUN) -m pytest -m crash

faults: $(READY) ## every fault, the kill runs and the pace of a hub's PostgreSQL (30 minutes); rewrites the figures of docs/reliability.md (root for some rows)
	$(RUN) -m tools.reliability $(ARGS)
	$(RUN) -m benchmarks.run --only postgres

power: $(READY) ## power cuts on a disk that writes its cache in any order; rewrites row 21 of docs/reliability.md (root)
	$(RUN) -m tools.reliability -k power_cut $(ARGS)

ifdef PEERS
BENCH := .venv-peers
bench: $(BENCH)/.ready
else
BENCH := $(VENV)
bench: $(READY)
endif
bench: ## measure and print a table; ARGS="--quick" for a short run, ARGS="--json FILE" keeps figures, PEERS=1 adds peers
	$(BENCH)/bin/python -m benchmarks.run $(ARGS)

.venv-peers/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -m venv --clear .venv-peers
	@$(call LOCKED,.venv-peers)
	@.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check langgraph-checkpoint-sqlite
	@touch $@

requirements: $(READY) ## list the requirements that no passing test proves
	@rm -f .requirements.json
	-@MALLOC_ARENA_MAX=2 $(IN_MEMORY) -q --numprocesses 2 --dist loadfile --requirements=.requirements.json
	@$(RUN) tools/requirements.py tests/requirements.md .requirements.json

# pip-tools finds the hashes of all files of a release, for every system; only pins and hashes are kept of what it says.
constraints: ## look up current versions and rewrite constraints.txt, with the hashes of their files
	$(PYTHON) -m venv --clear .venv-constraints
	.venv-constraints/bin/python -m pip install --quiet pip-tools
	.venv-constraints/bin/pip-compile --quiet --upgrade --generate-hashes --allow-unsafe --strip-extras --no-annotate \
		--build-deps-for editable --extra audit --extra dev --output-file .venv-constraints/found pyproject.toml
	grep -vE '^(#|--|kingly-memory @|$$)' .venv-constraints/found > constraints.txt
	rm -rf .venv-constraints

docs: .venv-docs/.ready ## the pages as a site with search, in site/; a dead link ends it
	.venv-docs/bin/zensical build --strict --clean
	@echo "look at it: $(PYTHON) -m http.server --directory site 8080"

.venv-docs/.ready: pyproject.toml
	@$(PYTHON) -m venv --clear .venv-docs
	@$(call PIP,.venv-docs) '.[docs]'
	@touch $@

clean: ## remove everything that make and the tools made
	rm -rf .venv .venv-constraints .venv-docs .venv-peers .hosts .page site .requirements.json bench.json build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
