# What a newcomer or a developer types. Needs Python >= 3.11 (with venv), git and make.
#
#   make demo    set up .venv, show stored results in the explorer, and train one table on digits
#   make test    the tests that every change needs; make test-all: CI's tests, also on a real Slurm;
#                make test-storm: tests that take minutes each, for a release or where their subject changes
#   make check   formatters, linters and types
#   make docs    the documentation site, in site/
#   make ids     record the runs' new ids (tests/specs/ids.json)
#   make evidence   write docs/evidence.md, docs/evidence/ and README's results, from the stored runs
#   make digests   record that methods were edited and their numbers have not changed
#   make lock    pin the dependencies of pyproject.toml again
#   make conformance OFFICIAL=folder   record the official codes' numbers again, from checkouts there
#   make clean   remove .venv and caches; results stay

.DEFAULT_GOAL := demo
.DELETE_ON_ERROR:
.PHONY: demo test test-all test-storm check docs ids digests evidence lock conformance clean

# The first Python that works; to choose: make PYTHON=/path/to/python demo. The list begins with those
# for which all locked packages have wheels.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	"$$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& command -v "$$python" && break; done)

# Scripts and jobs find the same Python as Snakemake, in every shell.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export PYTHONNOUSERSITE := 1
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

bin := .venv/bin
uv := $(bin)/uv pip

demo: .venv/installed
	@printf 'FedCorr'"'"'s Table 2 on CIFAR-10, from stored runs (docs/reduced.md).\n'
	$(bin)/snakemake --cores all --configfile=config/reduced.yaml fedcorr_table2
	@printf '\nNow two of its columns, trained here on scikit-learn'"'"'s digits.\n'
	$(bin)/snakemake --cores all fedcorr_table2
	@printf '\nOpen these in a browser, and click on a cell to see how it was computed:\n'
	@printf '  %s\n' results/reduced/explorer/fedcorr/table2.html results/quick/explorer/fedcorr/table2.html
	@printf '\nThen try, after `source .venv/bin/activate`:\n'
	@printf '  %-58s %s\n' 'snakemake --cores all --config=scale=reduced' 'all tables, figures and claims from stored runs' \
		'snakemake --cores all fedcorr_figure3' 'a figure, from a run that was just trained' \
		'noisyfl new-method my_method' 'your own method (docs/add-a-method.md)' \
		'noisyfl plan --config config/paper.yaml' 'what the paper scale needs'

# One process runs a whole test file, so that its fixtures are set up once. The longest files come
# first (tests/conftest.py). Each process needs half a minute to collect the tests, so there are only
# as many as cores; test-all has one more, which mostly waits for Slurm.
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
		envs/README.md results/README.md workflow rules profiles Snakefile Makefile \
		conformance/page.py conformance/page.md.jinja conformance/texts.yaml
	$(bin)/oxlint --deny-warnings workflow/noisyfl/explorer/assets/*.js docs/javascripts/*.js

docs: .venv/installed
	NO_MKDOCS_2_WARNING=1 $(bin)/mkdocs build --clean
	@echo "Open site/index.html in a browser."

ids: .venv/installed
	$(bin)/python tests/support/ids.py

digests: .venv/installed
	$(bin)/python tools/digests.py

# These pages and docs/conformance.md are the only generated ones that are tracked: they need minutes,
# and README.md links to them.
evidence: .venv/installed
	$(bin)/snakemake evidence --cores all --quiet host reason --configfile=config/reduced.yaml
	$(bin)/snakemake evidence_methods --cores all --quiet host reason --configfile=config/desk.yaml
	cp results/reduced/evidence.md docs/
	cp results/reduced/evidence/*.* results/desk/evidence/methods.md docs/evidence/
	$(bin)/python tools/readme_results.py

conformance: .venv/installed
	@test -n "$(OFFICIAL)" || { echo "make conformance OFFICIAL=folder of OWNER+NAME" >&2; exit 1; }
	$(bin)/python -m conformance "$(OFFICIAL)"

# Keeps pins that still fit; for newer versions, remove the file first.
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

# Compiled during installation: where Python cannot write bytecode (a read-only folder, or
# PYTHONDONTWRITEBYTECODE), each start of Snakemake and of a job would compile a thousand modules again.
.venv/installed: .venv/uv envs/requirements.txt pyproject.toml
	$(uv) install --quiet --compile-bytecode --python $(bin)/python --require-hashes -r envs/requirements.txt
	$(uv) install --quiet --python $(bin)/python --no-deps --no-build-isolation --editable .
	$(bin)/python -m noisyfl schema > /dev/null
	@touch $@

.venv/uv: envs/uv.txt
	@if [ -z "$(PYTHON)" ]; then echo "No Python >= 3.11 with venv was found. Install one (Debian:" \
	"apt-get install python3-venv), or name one: make PYTHON=/path/to/python" >&2; exit 1; fi
	"$(PYTHON)" -m venv .venv
	$(bin)/python -m pip install --quiet --require-hashes --only-binary :all: -r envs/uv.txt
	@touch $@
