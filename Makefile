# What a newcomer or a developer types. Needs Python >= 3.11 (with venv), git and make.
#
#   make demo    set up .venv, show stored results in the explorer, and train one table on digits
#   make test    what every change needs; make test-all: CI's tests, on a real Slurm too; make test-storm:
#                those that take minutes each, before a release or where their subject is edited
#   make check   formatters, linters and types
#   make docs    the documentation site, in site/
#   make ids     note that runs have other ids (tests/specs/ids.json)
#   make evidence   write docs/evidence.md, docs/evidence/ and README's results, from the stored runs
#   make digests   note that methods were edited without another number
#   make lock    pin anew what pyproject.toml asks for
#   make conformance OFFICIAL=folder   record the official codes' numbers anew, from checkouts there
#   make clean   remove what the tools left; results stay

.DEFAULT_GOAL := demo
.DELETE_ON_ERROR:
.PHONY: demo test test-all test-storm check docs ids digests evidence lock conformance clean

# The first Python that works; another one: make PYTHON=/path/to/python demo. Those first in the
# list are the ones that all of the locked packages have wheels for.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	"$$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& command -v "$$python" && break; done)

# Scripts and jobs find the same Python as Snakemake, whatever the shell was set up for.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export PYTHONNOUSERSITE := 1
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

bin := .venv/bin
uv := $(bin)/uv pip

demo: .venv/installed
	@printf 'FedCorr'"'"'s Table 2 on CIFAR-10, of stored runs (docs/reduced.md).\n'
	$(bin)/snakemake --cores all --configfile=config/reduced.yaml fedcorr_table2
	@printf '\nNow two of its columns, trained here on scikit-learn'"'"'s digits.\n'
	$(bin)/snakemake --cores all fedcorr_table2
	@printf '\nOpen these in a browser, and click on a cell to see how it was computed:\n'
	@printf '  %s\n' results/reduced/explorer/fedcorr/table2.html results/quick/explorer/fedcorr/table2.html
	@printf '\nThen try, after `source .venv/bin/activate`:\n'
	@printf '  %-58s %s\n' 'snakemake --cores all --config=scale=reduced' 'all tables, figures and claims of the stored runs' \
		'snakemake --cores all fedcorr_figure3' 'a figure, from a run that you have just trained' \
		'noisyfl new-method my_method' 'a method of your own (docs/add-a-method.md)' \
		'noisyfl plan --config config/paper.yaml' 'what the paper scale needs'

# A test file is one process's, so that what a file sets up is set up once. The longest files are
# the first in the order (tests/conftest.py). Each process costs half a minute to collect the tests,
# so there are only as many as cores; of all tests one more, which waits most of the time for a Slurm.
pytest := $(bin)/pytest --dist loadfile --no-loadscope-reorder

test: .venv/installed
	$(pytest) -n $$(nproc)

test-all: .venv/installed
	$(pytest) -n $$(($$(nproc) + 1)) -m "not storm" --durations=60 --durations-min=2

test-storm: .venv/installed
	$(pytest) -n $$(nproc) -m storm

check: .venv/installed
	$(bin)/ruff check
	$(bin)/ruff format --check
	$(bin)/mypy
	$(bin)/lint-imports
	$(bin)/deptry workflow
	$(bin)/snakefmt --check Snakefile workflow/Snakefile rules
	$(bin)/snakemake --lint
	$(bin)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(bin)/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff
	$(bin)/python tools/words.py README.md CONTRIBUTING.md docs config/*.yaml config/README.md \
		envs/README.md results/README.md workflow rules
	$(bin)/oxlint --deny-warnings workflow/noisyfl/explorer/assets/*.js docs/javascripts/*.js

docs: .venv/installed
	NO_MKDOCS_2_WARNING=1 $(bin)/mkdocs build --clean
	@echo "Open site/index.html in a browser."

ids: .venv/installed
	$(bin)/python tests/support/ids.py

digests: .venv/installed
	$(bin)/python tools/digests.py

# The only generated pages that are tracked, with docs/conformance.md: they need minutes, and readers
# of the repository follow links to them from README.md.
evidence: .venv/installed
	$(bin)/snakemake evidence --cores all --quiet host reason --configfile=config/reduced.yaml
	$(bin)/snakemake evidence_methods --cores all --quiet host reason --configfile=config/desk.yaml
	cp results/reduced/evidence.md docs/
	cp results/reduced/evidence/*.* results/desk/evidence/methods.md docs/evidence/
	$(bin)/python tools/readme_results.py

conformance: .venv/installed
	@test -n "$(OFFICIAL)" || { echo "make conformance OFFICIAL=folder of OWNER+NAME" >&2; exit 1; }
	$(bin)/python -m conformance "$(OFFICIAL)"

# Pins that still fit are kept; for newer versions, remove the file first.
lock: export UV_CUSTOM_COMPILE_COMMAND := make lock
lock: lock_options := --quiet --universal --python-version 3.11 --generate-hashes
lock: .venv/uv
	echo uv | $(uv) compile $(lock_options) - --output-file envs/uv.txt
	$(uv) compile $(lock_options) pyproject.toml --extra snakemake --extra dev --extra docs \
		--output-file envs/requirements.txt

clean:
	rm -rf .venv .pytest_cache .hypothesis .mypy_cache .ruff_cache site
	find workflow tests -name __pycache__ -prune -exec rm -r {} +
	@echo "Kept: results/, data/ and Snakemake's records of them in .snakemake/"

# Compiled at once, since where Python may write no bytecode (a read-only folder, or
# PYTHONDONTWRITEBYTECODE) every start of Snakemake and of a job would compile a thousand modules anew.
.venv/installed: .venv/uv envs/requirements.txt pyproject.toml
	$(uv) install --quiet --compile-bytecode --python $(bin)/python --require-hashes -r envs/requirements.txt
	$(uv) install --quiet --python $(bin)/python --no-deps --no-build-isolation --editable .
	$(bin)/python -m noisyfl schema > /dev/null
	@touch $@

.venv/uv: envs/uv.txt
	@if [ -z "$(PYTHON)" ]; then echo "No Python >= 3.11 with venv was found. Install one (Debian:" \
	"apt-get install python3-venv), or say where it is: make PYTHON=/path/to/python" >&2; exit 1; fi
	"$(PYTHON)" -m venv .venv
	$(bin)/python -m pip install --quiet --require-hashes --only-binary :all: -r envs/uv.txt
	@touch $@
