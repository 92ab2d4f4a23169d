# Two commands on a fresh machine with Python 3.11 or later: `make demo` and `make test`. Each makes its own .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# add two marked numbers of a sequence: about a minute, on one thread, since networks this small gain nothing from a second
DEMO := sh st td lstm --task adding --length 30 --num-evaluation 300 --parameters 1500 --trials 32 --seeds 10 --steps 600

# tests run side by side: threads that wait for one another sleep, and leave the cores to other tests
PASSIVE := OMP_WAIT_POLICY=passive

.PHONY: help demo gallery test lint docs bench clean
.DEFAULT_GOAL := help

help: ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("rnnlab needs Python 3.11 or later; say which: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(VENV)/installed ## a fair comparison of four architectures with a report, in demo/; about a minute
	@mkdir -p demo
	OMP_NUM_THREADS=1 $(BIN)/rnnlab compare $(DEMO) --store demo/rnnlab.db -o demo/report.html

gallery: $(VENV)/installed ## measure and draw every architecture of the catalogue, into demo/
	@mkdir -p demo
	$(BIN)/rnnlab list
	$(BIN)/rnnlab measure td
	$(BIN)/python docs/make_gallery.py demo
	@echo "pictures of all of them: demo/gallery.md"

test: $(VENV)/installed ## run the tests; Triton's interpreter runs GPU kernels on the CPU
	@ls /usr/lib/postgresql/*/bin/initdb > /dev/null 2>&1 || command -v initdb > /dev/null || \
	  echo "PostgreSQL is not installed: its part of the tests is skipped (Debian: apt install postgresql)"
	$(PASSIVE) $(BIN)/python -m pytest -n auto --dist loadfile
	$(PASSIVE) TRITON_INTERPRET=1 $(BIN)/python -m pytest -n auto tests/engine/gpu/test_population.py tests/engine/gpu/test_memory_bound.py tests/engine/test_read_out.py tests/training/test_fused.py tests/tasks/test_fused_cross_entropy.py

lint: $(VENV)/installed ## ruff and pyright
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

docs: $(VENV)/installed ## draw the gallery, write the reference and the pages of results anew
	$(BIN)/python docs/make_gallery.py docs
	$(BIN)/python docs/make_reference.py
	$(BIN)/python docs/make_reproduction.py

bench: $(VENV)/installed ## time the measures, training steps and training on the CPU against their peers
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python benchmarks/measures.py
	$(BIN)/rnnlab bench cpu --threads 1 -o benchmarks/results/cpu-1-threads.json
	$(BIN)/rnnlab bench cpu --threads 2 -o benchmarks/results/cpu-2-threads.json
	$(BIN)/rnnlab bench train -o benchmarks/results/train-cpu-2-threads.json

clean: ## remove the virtual environment and everything made by it
	rm -rf $(VENV) demo build *.egg-info .pytest_cache .ruff_cache .hypothesis
