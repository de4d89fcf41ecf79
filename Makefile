# `make help` lists the targets. Everything runs in .venv, which `make install` creates.

PYTHON ?= python3
EXTRAS := plot,earth-mover,trajectory,mdanalysis,parquet,openmm,imd,redis,watch,completion
# More arguments for pytest, for example: make test PYTEST_ARGS="-k rmsd"
PYTEST_ARGS ?=
# More arguments for the mutants, for example: make mutants MUTANT_ARGS="--only distilled"
MUTANT_ARGS ?=
# More arguments for the fuzzer, for example: make fuzz FUZZ_ARGS="--seed 7 --only checkpoint"
FUZZ_ARGS ?=
# What `make sanitize` runs, and which of the fuzzer's targets; names as in tools/fuzz_targets.py.
SANITIZE_TESTS ?= tests/kernels tests/inputs/test_xtc_frames.py tests/test_text_rows.py tests/streaming/test_decoding.py
SANITIZE_TARGETS ?= decoders tables trajectories
# More arguments for the evidence, for example: make evidence EVIDENCE_ARGS="--only speed --hours 1"
EVIDENCE_ARGS ?=
# More arguments for the kills, for example: make kills KILL_ARGS="--seed 7 --only csv"
KILL_ARGS ?=
# More arguments for the signals, for example: make signals SIGNAL_ARGS="--seed 7 --only embed"
SIGNAL_ARGS ?=
# More arguments for the simulated worlds, for example: make simulate SIMULATE_ARGS="--seed 4711"
SIMULATE_ARGS ?=
# More arguments for the package check, for example: make package PACKAGE_ARGS="--output dist"
PACKAGE_ARGS ?=
# The Pythons that wheels are built with; that of 3.12 is for all later ones too.
WHEEL_PYTHONS ?= python3.11 python3.12
# The oldest Python that pyproject.toml allows, and the tests that run there; FLOORS_TESTS= runs all.
FLOORS_PYTHON ?= python3.11
FLOORS_TESTS ?= tests/metrics tests/extension tests/landmarks tests/regions tests/datasets tests/inputs/test_open.py \
	tests/inputs/test_tables.py tests/maps/test_landmark_diffusion_map.py tests/maps/test_model_file.py

VENV := .venv
BIN := $(VENV)/bin
TOOLS := $(VENV)/.tools
BUILT := $(VENV)/.built
NEEDED := $(VENV)/.needed
RUNNABLE := $(VENV)/.runnable
INSTALLED := $(VENV)/.installed
# The folder too: its time tells of files that are gone.
KERNELS := CMakeLists.txt src/ldmaps/kernels $(wildcard src/ldmaps/kernels/*.cpp src/ldmaps/kernels/*.h)
# Python compiles to bytecode what it loads; pip would do so with all that is installed. Where it is told to write no
# bytecode, as in many containers, each of the hundreds of processes that tests start would compile everything again.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/python -m pip install --quiet --no-compile
# The same folder and the same tools every time, so that ninja compiles only what changed.
BUILD := MAKEFLAGS= $(PIP) --no-build-isolation --no-deps -C build-dir="build/{wheel_tag}" --editable .

# The compiler in CXX, or the machine's. Where there is none, the one inside the ziglang wheel.
ifeq ($(origin CXX),default)
ifeq ($(shell command -v c++ || command -v g++ || command -v clang++ || true),)
ZIG := ziglang
export CXX := $(abspath $(BIN))/zig-c++
endif
endif

# Two processes on two cores: further threads of BLAS would turn while they wait for each other, which takes as much
# processor time again.
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: install
install: $(INSTALLED) ## Create .venv with the package (editable) and all that tests and demo need

# Stamps are written last: an interrupted installation starts again. The demo needs little, so it waits for little, and
# what it needs is fetched while the kernels are compiled.
$(TOOLS): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) "pip>=25.1"
	$(PIP) --group build $(ZIG)
	for tool in $(if $(ZIG),"c++ -mcpu=baseline" ar ranlib); do \
		printf '#!/bin/sh\nexec "%s" -m ziglang %s "$$@"\n' "$(abspath $(BIN))/python" "$$tool" > $(BIN)/zig-$${tool%% *}; \
		chmod +x $(BIN)/zig-$${tool%% *}; \
	done
	touch $@

# Until the tests are installed, for this processor alone.
$(BUILT): $(TOOLS) $(KERNELS)
	$(BUILD) -C cmake.define.LDMAPS_NATIVE=$(if $(wildcard $(INSTALLED)),OFF,ON)
	touch $@

$(NEEDED): $(TOOLS)
	$(BIN)/python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
	    print(*project['dependencies'], *project['optional-dependencies']['plot'], sep='\n')" > $@.txt
	$(PIP) --requirement $@.txt
	touch $@

$(RUNNABLE): $(TOOLS) $(KERNELS)
	$(MAKE) --no-print-directory --jobs=2 $(BUILT) $(NEEDED)
	touch $@

$(INSTALLED): pyproject.toml | $(RUNNABLE)
	$(BUILD) -C cmake.define.LDMAPS_NATIVE=OFF
	$(PIP) "ldmaps[$(EXTRAS)]" --group dev
	touch $@

.PHONY: demo
demo: $(RUNNABLE) ## Map alanine dipeptide, stream new frames into the map, draw the figure
	$(BIN)/ldmaps demo --force

.PHONY: paper
paper: $(INSTALLED) ## Compute the paper's tables and figures again (up to an hour; goes on if interrupted): docs/paper
	$(BIN)/python -m reproduction --output docs/paper

.PHONY: test
test: $(INSTALLED) ## Run the tests and the examples in the docstrings, on two processes (five minutes)
	$(PYTEST) --dist worksteal -m "not slow" --durations=20 $(PYTEST_ARGS)

.PHONY: quotes
quotes: $(INSTALLED) ## Run the commands that the pages quote, and write down what they print
	$(BIN)/python tools/quotes.py

.PHONY: numbers
numbers: $(INSTALLED) ## Measure the numbers that several pages say, and write them into these pages
	$(BIN)/python -m tools.page_numbers

.PHONY: evidence
evidence: $(VENV)/.peers .venv-peers/.installed $(VENV)/.anomalies ## Measure the numbers of the pages with one commit's code (two hours; resumes): docs/evidence.json
	$(BIN)/python -m benchmarks.evidence $(EVIDENCE_ARGS)

.PHONY: test-slow
test-slow: $(INSTALLED) ## Run what `make test` leaves out: kills, engines, examples, the reduced reproduction
	$(PYTEST) --dist loadfile -m slow $(PYTEST_ARGS)

.PHONY: test-all
test-all: test test-slow ## Run all tests

$(VENV)/.coverage: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --group coverage
	touch $@

.PHONY: coverage
coverage: $(VENV)/.coverage ## Run the tests and count the lines they run; a file below 90 % fails (a quarter of an hour)
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run -m pytest -n 2 --dist worksteal -o faulthandler_timeout=600 $(PYTEST_ARGS)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage json --quiet --ignore-errors --include 'src/ldmaps/*' -o .coverage.json
	$(BIN)/python tools/coverage_floor.py .coverage.json

$(VENV)/.package: $(RUNNABLE)
	$(BIN)/python -m pip install --quiet --group package
	touch $@

.PHONY: package
package: $(VENV)/.package ## Build sdist and wheels, look inside, install all into empty environments and try them
	$(BIN)/python tools/package.py $(PACKAGE_ARGS)

.PHONY: wheels
wheels: $(VENV)/.package ## The same with wheels for other Linux systems too, kept in dist/
	$(BIN)/python tools/package.py --manylinux --pythons $(WHEEL_PYTHONS) --output dist

# The oldest Python with the oldest of everything that pyproject.toml allows.
.venv-floors/.installed: pyproject.toml tools/floors.py $(KERNELS)
	test -x .venv-floors/bin/python || $(FLOORS_PYTHON) -m venv .venv-floors
	.venv-floors/bin/python tools/floors.py --without imd,torch,anndata > .venv-floors/floors.txt
	.venv-floors/bin/python -m pip install --quiet "pip>=25.1"
	.venv-floors/bin/python -m pip install --quiet --requirement .venv-floors/floors.txt --group floors --editable .
	touch $@

# Old versions use what newer ones of their own dependencies deprecate; that is not ours to mend.
.PHONY: floors
floors: .venv-floors/.installed ## Run the tests of the library's core with the oldest versions that pyproject.toml allows
	.venv-floors/bin/python -m pytest -n 2 --dist worksteal -W ignore::DeprecationWarning $(FLOORS_TESTS) $(PYTEST_ARGS)

.PHONY: lint
lint: $(INSTALLED) ## Check style, formatting, types and what imports what
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(filter %.cpp %.h,$(KERNELS))
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache

$(VENV)/.docs: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --group docs
	touch $@

.PHONY: docs
docs: $(VENV)/.docs ## Build the site with its examples (two minutes); a warning is an error: docs/_build/html/index.html
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

.PHONY: docs-links
docs-links: $(VENV)/.docs ## Follow every link of the site
	$(BIN)/python -m sphinx -q -b linkcheck docs docs/_build/links

.PHONY: mutants
mutants: $(INSTALLED) ## Break the library one line at a time, listed lines and drawn ones, and see that a test notices (an hour)
	$(BIN)/python tools/mutants.py --random 100 $(MUTANT_ARGS)

.PHONY: fuzz
fuzz: $(INSTALLED) ## Feed hostile files, streams, arguments and messages for ten minutes; only documented errors may come
	$(BIN)/python tools/fuzz.py --seconds 600 $(FUZZ_ARGS)

# A copy of the package with kernels that test every index and address, found before the installed one. Python itself is
# built without the sanitizer, so that and the library of C++ are loaded first; what Python never frees is no leak.
SANITIZED := build/sanitize
SANITIZE = LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
	PYTHONPATH="$(abspath $(SANITIZED))/src" \
	ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:quarantine_size_mb=64 UBSAN_OPTIONS=print_stacktrace=1

.PHONY: sanitize
sanitize: $(INSTALLED) ## Run the kernels' tests and fuzzers with every index, address and undefined behaviour checked
	$(BIN)/cmake -S . -B $(SANITIZED) -G Ninja -DLDMAPS_CHECKED=ON -DPython_EXECUTABLE=$(abspath $(BIN))/python \
		-DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja
	$(BIN)/cmake --build $(SANITIZED)
	rm -rf $(SANITIZED)/src
	cp -r src $(SANITIZED)/src
	rm -f $(SANITIZED)/src/ldmaps/kernels/*.so
	$(BIN)/cmake --install $(SANITIZED) --prefix $(SANITIZED)/src
	$(SANITIZE) $(BIN)/python -m pytest $(SANITIZE_TESTS) $(PYTEST_ARGS)
	$(SANITIZE) $(BIN)/python tools/fuzz.py --seconds 120 --only $(SANITIZE_TARGETS) $(FUZZ_ARGS)

.PHONY: kills
kills: $(INSTALLED) ## Kill streams 1,000 times, start them again, and compare their outputs byte by byte (minutes)
	$(BIN)/python tools/kills.py --kills 1000 --faults 60 $(KILL_ARGS)

.PHONY: signals
signals: $(INSTALLED) ## Send 300 signals to commands at random moments; each must end as documented (a quarter of an hour)
	$(BIN)/python -m tools.signals --signals 300 $(SIGNAL_ARGS)

.PHONY: simulate
simulate: $(INSTALLED) ## Run streams in 100,000 simulated worlds, each with faults that its seed decides (ten minutes)
	$(BIN)/python tools/simulate.py --worlds 100000 $(SIMULATE_ARGS)

.PHONY: accuracy
accuracy: $(INSTALLED) ## Measure landmark maps against the exact one at full size (half an hour, 3 GB): docs/accuracy.md
	$(BIN)/python benchmarks/distilling_ideas.py
	$(BIN)/python benchmarks/certificates.py
	$(BIN)/python benchmarks/accuracy.py

.PHONY: error-estimates
error-estimates: $(INSTALLED) ## Measure predicted against true errors at full size (minutes, 3 GB): docs/error_estimates.md
	$(BIN)/python benchmarks/perturbation.py
	$(BIN)/python benchmarks/estimate_search.py

# datafold needs an older scikit-learn than ours, so it lives in an environment of its own.
.venv-peers/.installed:
	test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet "datafold==2.0.2"
	touch $@

$(VENV)/.peers: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --group peers
	touch $@

.PHONY: bench
bench: $(VENV)/.peers .venv-peers/.installed ## Measure speed and agreement with other packages: docs/benchmarks/speed.md, compare.md
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/planning.py
	$(BIN)/python benchmarks/gradient.py
	$(BIN)/python benchmarks/features.py
	$(BIN)/python benchmarks/surroundings.py
	$(BIN)/python benchmarks/compare.py

.PHONY: bench-scale
bench-scale: $(INSTALLED) ## Measure memory and time against N and M, up to a million points: docs/benchmarks/scale.md
	$(BIN)/python benchmarks/scale.py

.PHONY: bench-cluster
bench-cluster: $(INSTALLED) ## Measure fits out of core on worker processes: docs/benchmarks/cluster.md
	$(BIN)/python benchmarks/cluster.py

.PHONY: bench-stream
bench-stream: $(VENV)/.peers .venv-peers/.installed ## Measure streams: rate, latency, memory, against peers: docs/benchmarks/stream.md
	$(BIN)/python benchmarks/stream.py

$(VENV)/.anomalies: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --group anomalies
	touch $@

.PHONY: bench-anomalies
bench-anomalies: $(VENV)/.anomalies ## Measure anomalies found and false alarms, against PyOD and others: docs/benchmarks/anomalies.md
	$(BIN)/python benchmarks/anomalies.py

.PHONY: clean
clean: ## Remove caches and builds (to reinstall, delete .venv too)
	rm -rf build dist htmlcov .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests tools -type d -name __pycache__ -prune -exec rm -rf {} +
