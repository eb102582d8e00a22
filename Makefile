# `make demo` and `make test` each work alone on a fresh machine that has Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt

# digits-rho-sweep → digits/rho-sweep
place = $(firstword $(subst -, ,$(1)))/$(patsubst $(firstword $(subst -, ,$(1)))-%,%,$(1))

.PHONY: help demo test lint format docs docs-serve bench bench-methods bench-step bench-growth bench-tree bench-compact bench-readouts bench-photos bench-parity bench-startup bench-flatness results kill fuzz clean
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z%-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/%/NAME/; s/^([a-zA-Z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

demo: $(VENV)/.runtime ## train EsaCL on the embedded stream in under a minute and print where the report is
	$(BIN)/esacl run --method esacl-der++ --stream split-digits --sparsity 0.8 --epochs 10 --buffer 50 \
		--unpruned --out runs/demo --overwrite

# In the order of their names: otherwise modules of few tests, some of which are the longest, come last.
test: $(VENV)/.dev ## run every test, on up to four cores; COVER=yes also counts which lines they run
	$(BIN)/python -m pytest $(if $(COVER),--cov --cov-report=term) --numprocesses auto --maxprocesses 4 --dist loadscope \
		--no-loadscope-reorder

fuzz: $(VENV)/.dev ## damage inputs of every kind and see that nothing comes of it: make fuzz CASES=10000 SEED=1
	$(BIN)/python -m tests.faults --cases $(or $(CASES),10000) --seed $(or $(SEED),1)

lint: $(VENV)/.dev ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev ## apply the style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.docs ## build the documentation into site/; a broken link or a missing page is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: $(VENV)/.docs ## show the documentation while it is written
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

bench: $(VENV)/.dev ## measure the engine's overhead against a bare torch loop, and what layout and allocator are worth
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/layout.py
	$(BIN)/python benchmarks/allocator.py

study-%: $(VENV)/.dev ## train recipes/SIZE/NAME.toml, as far as it is missing, and tabulate it: make study-digits-main
	$(BIN)/esacl grid recipes/$(call place,$*).toml --out runs/studies/$(call place,$*)

tune-%: $(VENV)/.dev ## choose settings on validation by recipes/SIZE/NAME.toml: make tune-digits-tuning
	$(BIN)/esacl tune recipes/$(call place,$*).toml --out runs/studies/$(call place,$*)

readouts-%: $(VENV)/.dev ## read out the runs of a study in every way, choose on validation: make readouts-digits-readouts
	$(BIN)/python benchmarks/readout_page.py runs/studies/$(call place,$*)

results: $(VENV)/.dev ## write docs/results anew from the kept runs; RUNS="runs/studies/digits/main" packs those of a study first
	$(BIN)/python benchmarks/results.py $(RUNS)

bench-methods: $(VENV)/.dev ## measure what a step of every method costs against one of fine-tuning
	$(BIN)/python benchmarks/methods.py

bench-step: $(VENV)/.dev ## measure what a step of EsaCL costs against dense SGD and full SAM
	$(BIN)/python benchmarks/step_cost.py

bench-growth: $(VENV)/.dev ## measure time and memory in the 50th task against the first
	$(BIN)/python benchmarks/growth.py

bench-tree: $(VENV)/.dev ## measure what a step of a growing network costs against dense training
	$(BIN)/python benchmarks/tree.py

bench-photos: $(VENV)/.dev ## measure memory and time to start with folders of 5,000 and 50,000 photos
	$(BIN)/python benchmarks/photos.py

bench-compact: $(VENV)/.dev ## measure what the compact ONNX form of a grown network saves in onnxruntime
	$(BIN)/python benchmarks/compact.py

bench-readouts: $(VENV)/.dev ## measure what fitting each readout takes as a share of a run's training (needs CIFAR-10)
	$(BIN)/python benchmarks/readouts.py

bench-parity: $(VENV)/.dev ## compare er and der++ with reference loops in plain torch: accuracy and time (needs CIFAR-10)
	$(BIN)/python benchmarks/parity.py

bench-startup: $(VENV)/.dev ## measure how long the command line takes to answer, as a multiple of `python -c pass`
	$(BIN)/python benchmarks/startup.py

bench-flatness: $(VENV)/.dev ## compare the sharpness of EsaCL's pruned point with SGD's at equal training loss (Split digits)
	$(BIN)/python benchmarks/flatness.py

kill: $(VENV)/.dev ## kill training 100 times at random moments, go on, compare every bit; KILLS=20 SEED=1 for others
	$(BIN)/python -m tests.kills --cases $(or $(KILLS),100) --seed $(or $(SEED),0)

clean: ## remove the environment and caches (runs/ stays)
	rm -rf $(VENV) site .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage*

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else "esacl needs Python 3.11 or newer, but $(PYTHON) is %d.%d. Name another: make PYTHON=python3.12 ..." % v[:2])'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.runtime

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[docs]'
	@touch $@ $(VENV)/.runtime
