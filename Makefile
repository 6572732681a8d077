# One virtual environment, .venv, holds every tool; `make` alone lists the targets.

PYTHON ?= python3
# What goes into the environment besides the core; see pyproject.toml.
EXTRAS ?= dev,sim,synth,board,formal,gpu,tune,examples

# Set iteration order must not reach emitted files.
export PYTHONHASHSEED := 0
# Compiled modules are kept: without, each process of the tests would compile Daedal again.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadgroup

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv lint format test quick test-full test-changed test-shard-of-the-day durations ledger demo docs site dist area-data area-check clean distclean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

venv: $(STAMP) ## create or update .venv

# Wheels only: nothing but Daedal itself is built here. A changed pyproject.toml reinstalls.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Daedal needs Python 3.11 or newer, not $$($(PYTHON) --version 2>&1): run make PYTHON=python3.11" >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --only-binary :all: --editable '.[$(EXTRAS)]'
	@touch $@

# import-linter looks in its working directory first, so it runs where all packages lie side by side.
lint: $(STAMP) ## check style, types and import directions
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cd typings && ../$(BIN)/lint-imports --config ../pyproject.toml --cache-dir ../.import_linter_cache

format: $(STAMP) ## rewrite the sources in house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# A first check of all types takes a minute of one processor, so the tests run beside it.
test: $(STAMP) ## lint, and run the tests that are not slow
	@$(MAKE) --no-print-directory -j 2 lint quick

# A test that uses more CPU time than it may is an error.
quick: $(STAMP)
	$(PYTEST) -m "not slow" -p tests.support.cpu_budget $(TIMES)

# The slow tests fall into so many shards. TIMES="--cpu-times FILE" keeps what each test used;
# `python -m tests.support.durations FILE` enters it into the table that balances them.
SHARDS := 60
TIMES ?=
SHARD ?=
test-full: lint ## run every test; SHARD=2/60: the second of 60 parts of the slow ones
	$(PYTEST) -p tests.support.cpu_budget $(if $(SHARD),--shard $(SHARD)) $(TIMES)

test-shard-of-the-day: ## run one shard of the slow tests, another one each day
	@$(MAKE) test-full SHARD=$$(( $$(date +%s) / 86400 % $(SHARDS) + 1 ))/$(SHARDS)

FILE ?= .daedal/cpu-times
durations: $(STAMP) ## measure the tests that are not slow, and write tests/durations.json
	mkdir -p $(dir $(FILE))
	-$(PYTEST) -p tests.support.cpu_budget -m "not slow" --cpu-times $(FILE)
	$(BIN)/python -m tests.support.durations $(FILE)

BASE ?= HEAD
test-changed: $(STAMP) ## run the tests that a change since BASE (a commit) can break
	@files=$$($(BIN)/python -m bench.changes.changed_tests $(BASE)) || exit; \
	if test -z "$$files"; then echo "no test reads what changed since $(BASE)"; \
	else $(PYTEST) -m "not slow" $$files; fi

# ONLY="resnet18.* C2.vta" counts these entries alone.
ledger: $(STAMP) ## count the cycles of the bench again, rewrite their table, print what moved
	$(BIN)/python bench/changes/ledger.py $(foreach pattern,$(ONLY),'$(pattern)')

demo: $(STAMP) ## compile the digits network for variant vta and simulate it on the RTL
	$(BIN)/python examples/digits/demo.py

docs: $(STAMP) ## regenerate the documents derived from the code
	$(BIN)/python -m daedal.isa.docs
	$(BIN)/python -m bench.networks.memory_page
	$(BIN)/python -m bench.networks.board_rates
	$(BIN)/python -m daedal.hw.synth_pages.page
	$(BIN)/python -m daedal.reports.operators
	$(BIN)/python -m daedal.reports.variant_prices
	$(BIN)/python -m daedal.reports.profiling_page

# A link that leads nowhere, and whatever else Sphinx complains of, is an error.
site: $(STAMP) ## build the documentation site, build/site/index.html
	$(BIN)/python -m sphinx -b html -W --keep-going -q docs build/site

# The list of components (SBOM) is that of an environment with the wheel alone, without extras.
dist: $(STAMP) ## build sdist, wheel and the list of components in dist/
	$(BIN)/python -m pip install --quiet --only-binary :all: --editable '.[release]'
	rm -rf dist build/core
	$(BIN)/python -m build --outdir dist
	$(PYTHON) -m venv build/core
	build/core/bin/python -m pip install --quiet --only-binary :all: dist/*.whl
	rm build/core/lib/python3*/site-packages/daedal-*/direct_url.json # names a path of this machine
	$(BIN)/cyclonedx-py environment --output-reproducible --output-file dist/components.cdx.json build/core/bin/python

# Hours: make N=100. An interrupted run goes on; `daedal/codesign/hardware/data` changes.
N ?= 20
area-data: $(STAMP) ## synthesize N more parts, N/4 machines, and route N/8: tables of the estimates
	$(BIN)/python bench/codesign/area_data.py --best $(N)
	$(BIN)/python bench/codesign/area_data.py --whole --best $$(( $(N) / 4 ))
	$(BIN)/python bench/codesign/clock_data.py --count $$(( $(N) / 8 ))

area-check: $(STAMP) ## mark rows of these tables that a change of hw/ made stale
	$(BIN)/python bench/codesign/area_data.py --check; parts=$$?; \
	$(BIN)/python bench/codesign/area_data.py --whole --check; wholes=$$?; \
	$(BIN)/python bench/codesign/clock_data.py --check && test $$parts$$wholes = 00

clean: ## remove build products
	rm -rf build dist *.egg-info sim_build .daedal .hypothesis .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean ## remove build products and .venv
	rm -rf $(VENV)
