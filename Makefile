# Everything installs into .venv/ in this checkout; each target sets up what it needs.
PYTHON ?= python3
VENV   := .venv
# Pythons for which every package of constraints.txt has a wheel; numpy and scipy are the first without one for 3.15
PYTHONS := 3.11 3.12 3.13 3.14
BIN    := $(VENV)/bin
# two test processes on few cores: threads of BLAS would only spin against each other
export OPENBLAS_NUM_THREADS ?= 1
export OMP_WAIT_POLICY ?= passive
export OPENBLAS_THREAD_TIMEOUT ?= 4

.PHONY: help demo test quick check bench soak docs clean
help:            ## what can be made
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/'

$(VENV)/.core: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; here = "%d.%d" % sys.version_info[:2]; \
	  sys.exit(0 if here in "$(PYTHONS)".split() else \
	    "keyhole needs Python $(firstword $(PYTHONS)) or newer, and this is %s: make PYTHON=python$(lastword $(PYTHONS)) ..." % here \
	    if sys.version_info[:2] < (3, 11) else \
	    "There are no wheels yet of all packages (numpy, scipy, ...) for Python %s: make PYTHON=python$(lastword $(PYTHONS)) ..." % here)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

# pages are looked at with a real browser; where none can be installed, those tests say that they are skipped
$(VENV)/.browser: $(VENV)/.dev
	@command -v chromium > /dev/null || command -v chromium-browser > /dev/null || command -v google-chrome > /dev/null || \
	  { test "$$(id -u)" = 0 && command -v apt-get > /dev/null && apt-get update -qq > /dev/null && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core > /dev/null; } || \
	  echo "no browser here and none could be installed: tests of pages will be skipped"
	@touch $@

# the accessibility of pages is checked by axe-core (MPL-2.0), which is fetched for the test and is no part of the project
$(VENV)/.axe: $(VENV)/.dev
	@command -v npm > /dev/null || { test "$$(id -u)" = 0 && command -v apt-get > /dev/null && apt-get update -qq > /dev/null && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends npm > /dev/null; } || true
	@npm install --silent --no-save --no-audit --no-fund --prefix $(VENV)/axe axe-core@4.10 > /dev/null 2>&1 || \
	  echo "axe-core could not be fetched by npm: the test of accessibility will be skipped"
	@touch $@

# a session of Spark on this machine needs Java, and the test of JDBC a compiler and PostgreSQL's driver, too; where they
# cannot be installed, those tests say that they are skipped
JDBC := /usr/share/java/postgresql.jar
$(VENV)/.java: $(VENV)/.dev
	@{ command -v javac > /dev/null && test -e $(JDBC); } || \
	  { test "$$(id -u)" = 0 && command -v apt-get > /dev/null && apt-get update -qq > /dev/null && \
	    for jdk in openjdk-17-jdk-headless openjdk-21-jdk-headless; do \
	      DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$jdk \
	        libpostgresql-jdbc-java > /dev/null 2>&1 && break; done; } || \
	  echo "no Java or no JDBC driver here, and they could not be installed: tests of them will be skipped"
	@touch $@

demo: $(VENV)/.core   ## the hospital story, end to end
	$(BIN)/keyhole demo

check: $(VENV)/.dev   ## lint, format, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

quick: $(VENV)/.dev   ## under a minute: lint, layers, and the tests that were fast when they last ran here (run make test once)
	$(BIN)/ruff check --quiet .
	$(BIN)/lint-imports > /dev/null
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not soak and not slow"

# tests start hundreds of commands; compiled files are theirs even where PYTHONDONTWRITEBYTECODE forbids to leave any
test: check $(VENV)/.browser $(VENV)/.axe $(VENV)/.java  ## everything CI runs: check, unit, laws, doctests, end to end; names its 20 slowest
	$(BIN)/python -m compileall -q src
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not soak" --durations=20

soak: $(VENV)/.dev    ## every test with all its examples, and the long statistical ones
	KEYHOLE_EFFORT=full $(BIN)/python -m pytest

bench: $(VENV)/.dev   ## every benchmark, ratios against a peer in the same run
	$(BIN)/python -m benchmarks

docs: $(VENV)/.dev    ## print again every output shown in the docs, then build them as a site and check its links
	$(BIN)/python -m docs.reference
	$(BIN)/python -m docs.refresh
	$(BIN)/python -m docs.site

clean:                ## remove what the other targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache keyhole-demo site
