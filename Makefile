# Two commands do all the set-up themselves: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
BUF    := .buf/node_modules/.bin/buf
SITE   := .site/.installed
AXE    := .axe/node_modules/axe-core/axe.min.js
STUBS  := dprelease/wire/v1
WORKERS ?= 3
# Whole files go to a worker, for many of them share what is dear to set up. Tests of processes wait for these a third of their time:
# tests/conftest.py spreads them among the others, so that three workers keep two cores busy.
PYTEST := $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not slow"
# The core and the contracts, without what draws or simulates; tests/mechanisms where it exists.
FAST := tests/dprelease $(wildcard tests/mechanisms) tests/test_architecture.py tests/test_docs_format.py \
	$(addprefix --ignore=tests/dprelease/,estimators test_forecast.py test_comparison.py test_comparison_plot.py test_rehearsal_fit.py)
FOLDER  ?= demo-run
COG    := $(BIN)/python -m cogapp -P -I .
TABLES := docs/benchmarks.md
# Workers rewrite every assert and tests start Python over and over: what was compiled is kept, whatever the environment says.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-fast test-slow lint docs types protos check-protos measures check-wheel check-invariants check-r bench-quick check clean check-published check-pages

demo: $(STAMP) ## both kinds of release from three institutions on loopback, verified, fitted and compared
	$(BIN)/python -m demo

test: $(STAMP) ## every test but the slow ones
	$(PYTEST) tests

test-fast: $(STAMP) ## core and contracts in a minute, to run while writing
	$(PYTEST) $(FAST)

test-slow: $(STAMP) ## the heavier statistical suites
	$(BIN)/python -m pytest -q -m slow tests

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(COG) --check --diff $(TABLES)

docs: $(STAMP) $(SITE) ## tables of docs/benchmarks.md from benchmarks/results, and guides and references as web pages in site/
	$(COG) -r $(TABLES)
	NO_MKDOCS_2_WARNING=1 .site/bin/mkdocs build --quiet --strict --clean
	cp -r benchmarks site/
	sed -i 's|="\.\./benchmarks/|="benchmarks/|g' site/*.html

measures: $(STAMP) ## how large, tangled and wordy the project is, beside what it is to reach
	$(BIN)/python -m tests.measures

types: $(STAMP)
	$(BIN)/mypy

protos: $(STAMP) ## regenerate the stubs
	rm -f $(STUBS)/*_pb2*
	$(BIN)/python -m grpc_tools.protoc -I protos --python_out=. --pyi_out=. --grpc_python_out=. \
		--plugin=protoc-gen-mypy_grpc=$(BIN)/protoc-gen-mypy_grpc --mypy_grpc_out=quiet:. \
		protos/dprelease/wire/v1/*.proto

check-protos: $(STAMP) $(BUF) ## buf lint, and stubs equal to what the protos generate
	cd protos && ../$(BUF) lint
	BIN=$(BIN) sh protos/check_drift.sh

check-wheel: $(STAMP) ## the built wheel serves a learner who has not got SQLAlchemy
	rm -rf dist .wheel
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	$(PYTHON) -m venv .wheel
	.wheel/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt "$$(ls dist/*.whl)[learner]"
	cd / && $(CURDIR)/.wheel/bin/learner --help >/dev/null
	cd / && $(CURDIR)/.wheel/bin/learner report --help >/dev/null
	cd / && $(CURDIR)/.wheel/bin/python -c "import importlib.resources as r; r.files('dprelease.document').joinpath('templates/page.css').read_text()"
	cd / && ! $(CURDIR)/.wheel/bin/python -c "import sqlalchemy" 2>/dev/null
	rm -rf .wheel

check-r: $(STAMP) ## the R package passes R CMD check and agrees with Python; skipped where R or its packages are not installed
	@if ! Rscript -e 'for (each in c("jsonlite", "openssl", "knitr", "testthat", "generics")) loadNamespace(each)' >/dev/null 2>&1; then \
		echo "SKIPPED: make check-r: R or a package that r/DESCRIPTION names is not installed, so the R package is not checked"; exit 0; fi; \
	set -e; rm -rf .r; mkdir .r; \
	$(BIN)/python -m tests.support.r_folders .r/folders; \
	cd .r; R CMD build ../r; \
	DPRELEASE_FOLDERS=$(CURDIR)/.r/folders R CMD check --no-manual dprelease_*.tar.gz; \
	! grep -n WARNING dprelease.Rcheck/00check.log

check-published: ## a published folder passes mlcroissant and frictionless, which nothing else installs
	$(PYTHON) -m venv .validators
	.validators/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[validators]'
	.validators/bin/python -m pytest -q tests/learner/test_validators.py

check-pages: $(STAMP) $(AXE) ## pages and reports in headless Chromium, axe-core on them, and screenshots in .pages
	mkdir -p .pages
	AXE=$(AXE) SCREENSHOTS=.pages $(BIN)/python -m pytest -q -rs tests/learner/test_pages_in_browser.py
	@echo "screenshots to look at, each at three widths, light and dark: $(CURDIR)/.pages"

bench-quick: $(STAMP) ## every benchmark, a minute each at most; all of them in 12 minutes
	for path in benchmarks/[a-z]*.py benchmarks/*/__main__.py; do \
		name=$$(echo $$path | cut -d / -f 2 | cut -d . -f 1); \
		$(BIN)/python -m benchmarks.$$name --quick || exit 1; \
	done

check-invariants: $(STAMP) ## the states of all roles below FOLDER agree with one another
	$(BIN)/python -m audit $(FOLDER)

check: lint types check-protos check-wheel test

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

$(SITE): pyproject.toml constraints.txt
	$(PYTHON) -m venv .site
	.site/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[site]'
	touch $@

$(BUF): $(STAMP)
	$(BIN)/npm install --silent --no-fund --no-audit --fetch-timeout=60000 --prefix .buf @bufbuild/buf@1.75.0

$(AXE): $(STAMP)
	$(BIN)/npm install --silent --no-fund --no-audit --fetch-timeout=60000 --prefix .axe axe-core@4.14.1

clean:
	rm -rf $(VENV) .buf .wheel dist demo-run .r .mypy_cache .ruff_cache .pytest_cache .validators .axe .pages .site site
