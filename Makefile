# Every target does its own set-up: a fresh clone needs only python >= 3.11, pip and make.
.PHONY: setup demo browser typescript libfaketime test test-full check docs bench bench-mechanisms screenshots load soak faults world lock sbom dist release-check clean

RUN := .venv/bin/

# Tests start hundreds of processes. Without kept bytecode, each would compile every module again. Some environments
# forbid bytecode in the tree (PYTHONDONTWRITEBYTECODE), so it is kept in .venv.
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(CURDIR)/.venv/pycache

setup: .venv/.ready  ## make .venv from requirements.lock

.venv/.ready: requirements.lock pyproject.toml scripts/setup.sh scripts/uv-version
	sh scripts/setup.sh
	@touch $@

demo: setup  ## a metric over real data, end to end in the terminal
	@trap : INT; $(RUN)hubbub demo || test $$? -eq 130 # Ctrl-C is how a demo ends; without the trap, make reports an error

check: setup typescript  ## ruff, mypy and tsc strict, import contracts
	$(RUN)ruff check .
	$(RUN)ruff format --check .
	$(RUN)mypy
	$(RUN)lint-imports
	@sh scripts/tsc.sh

browser:  ## find or install a Chromium for the browser tests
	@sh scripts/chromium.sh

typescript: setup  ## install typescript and esbuild for the TypeScript SDK, from its lock
	@sh scripts/typescript.sh

libfaketime:  ## find or install libfaketime for the tests with wrong clocks
	@sh scripts/libfaketime.sh

test: setup browser typescript  ## the checks and the tests, about five minutes on two cores
	@MAKE="$(MAKE)" sh scripts/test.sh

test-full: check browser libfaketime  ## the checks and all tests, without a time limit
	$(RUN)pytest --timeout 1800 --hypothesis-profile explore

bench: setup  ## every benchmark in one table, with limits, peers and targets; under ten minutes
	$(RUN)python -m benchmarks

bench-mechanisms: setup  ## compare mechanisms with other libraries': renews docs/explanation/mechanism-comparison.md (ten minutes)
	sh benchmarks/mechanisms/setup.sh
	$(RUN)python -m benchmarks.mechanisms --write

docs: setup  ## the documentation as a site, in build/docs; a warning is an error
	@$(RUN)sphinx-build -W --keep-going -n -q -b html -d build/docs-cache docs build/docs
	@echo "open build/docs/index.html"

screenshots: setup browser  ## renew the pictures in docs/images
	$(RUN)python -m scripts.make_screenshots

load: setup  ## Locust against both services on loopback, every report counted: USERS= MINUTES= STORAGE=sqlite|redis SHAPE=steady|spike|outage RATE=
	$(RUN)python -m benchmarks.load.run

soak: setup  ## memory of a shuffler under mixed load: make soak MINUTES=10
	$(RUN)python -m benchmarks.load.soak

faults: setup libfaketime  ## kill, stop and cut off both services under load and set wrong clocks, every report counted: tables in Markdown (two hours)
	$(RUN)python -m tests.faults all

world: setup  ## explore histories of a simulated world: MINUTES= JOBS= STORAGE=sqlite|redis; play one again: SEED= or SCRIPT=; real processes: KILLS=
	$(RUN)python -m tests.world $(if $(MINUTES),--minutes $(MINUTES)) $(if $(JOBS),--jobs $(JOBS)) $(if $(STORAGE),--storage $(STORAGE)) $(if $(SEED),--seed $(SEED)) $(if $(SCRIPT),--script $(SCRIPT)) $(if $(KILLS),--real --kills $(KILLS))

lock: setup  ## renew requirements.lock from pyproject.toml, and the other libraries' lock
	$(RUN)uv pip compile pyproject.toml --extra server --extra query --extra dev --upgrade --generate-hashes --universal --no-emit-index-url --no-emit-package httpx2-jsfetch --no-header --quiet --output-file requirements.lock
	$(RUN)uv pip compile benchmarks/mechanisms/peers.in --python-version 3.11 --generate-hashes --upgrade --no-emit-index-url --no-header --quiet --output-file benchmarks/mechanisms/peers.lock
	$(MAKE) sbom

sbom: setup  ## renew sbom.cdx.json, the bill of materials, from requirements.lock
	$(RUN)python -m scripts.sbom

dist: setup  ## wheel, source distribution, bill of materials and hashes in dist/, each checked
	$(RUN)python -m scripts.dist

release-check: setup  ## make dist, and check whether this tree may be released: docs/how-to/release.md
	$(RUN)python -m scripts.dist --release

clean:
	rm -rf .venv .venv-peers dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
