# make install   .venv with the command gridwright
# make demo      proves examples/this-machine.yaml on this machine's disk
# make check     format, lint, types, unit tests: the inner loop
# make test      all checks; it ends with the time of each part and the slowest tests
# make test-thorough   the same with many more examples and seeds, and emulated machines: hours
# make lint-playbook   the Ansible roles alone
# make lint-templates the CloudFormation templates alone
# make test-vm   the checks on virtual machines alone: md, XFS, NFS, NVMe and systemd of real kernels
# make lock      pins the Python dependencies anew

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CARGO := cargo
MANIFEST := --manifest-path native/Cargo.toml
NATIVE := $(shell find native -path native/target -prune -o \( -name '*.rs' -o -name 'Cargo.*' \) -print)
export PIP_DISABLE_PIP_VERSION_CHECK = 1
export PIP_QUIET = 1

.PHONY: install demo check test test-thorough test-vm lint-playbook lint-templates lock clean test-packages
.DELETE_ON_ERROR:

install: $(VENV)/native

$(VENV)/python: requirements/dev.lock
	PYTHON=$(PYTHON) tools/debian-packages.sh install
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.lock
	@touch $@

$(VENV)/native: $(VENV)/python pyproject.toml $(NATIVE)
	PATH="$(CURDIR)/$(BIN):$$PATH" VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(BIN)/maturin develop --release --locked --quiet
	@touch $@

# A missed requirement (exit status 1) is a result of the demo, not a failure of it.
demo: install
	@mkdir -p demo/data demo/work demo/util
	$(BIN)/gridwright prove examples/this-machine.yaml --seconds 4s || test $$? -eq 1

test-packages:
	PYTHON=$(PYTHON) tools/debian-packages.sh test

check: install
	$(BIN)/python tools/checks.py check

# The playbook as it is rendered, at the strictest profile of ansible-lint; it asks no network.
lint-playbook: install
	$(BIN)/gridwright render examples/aws-lustre.yaml --out build/rendered --overwrite > /dev/null
	cd build/rendered && PATH="$(CURDIR)/$(BIN):$$PATH" ansible-lint --offline --profile production -q site.yml group_vars roles

# Specs whose templates are looked at: both examples of AWS, and both ways of the papers.
ON_AWS := examples/aws-fsx.yaml examples/aws-lustre.yaml examples/papers/000-all-on-lustre.yaml examples/papers/002-fsx-lustre.yaml

$(VENV)/checkov: requirements/checkov.lock $(VENV)/python
	$(PYTHON) -m venv --clear $(VENV)/checkov-venv
	$(VENV)/checkov-venv/bin/python -m pip install --quiet --require-hashes -r requirements/checkov.lock
	@touch $@

# Checks that are left out stand in .checkov.yaml, each with its reason.
lint-templates: install $(VENV)/checkov
	rm -rf build/aws
	for spec in $(ON_AWS); do \
		$(BIN)/gridwright render $$spec --out build/aws/$$(basename $$spec .yaml) > /dev/null || exit 1; \
	done
	$(BIN)/cfn-lint build/aws/*/*.template.*
	$(VENV)/checkov-venv/bin/checkov --config-file .checkov.yaml --skip-download --quiet --compact --framework cloudformation \
		$$(printf -- ' --file %s' build/aws/*/*.template.*)

test: test-packages install $(VENV)/checkov
	$(BIN)/python tools/checks.py test

test-thorough: test-packages install $(VENV)/checkov
	$(BIN)/python tools/checks.py test-thorough

test-vm: install
	PYTHON=$(PYTHON) tools/debian-packages.sh vm
	$(BIN)/python -m tests.vm.images
	$(BIN)/pytest tests/vm -n 2 --durations=10

lock: install
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --extra dev --extra workload --extra aws \
		--no-header --no-annotate pyproject.toml --output-file requirements/dev.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-header --no-annotate requirements/checkov.in --output-file requirements/checkov.lock

clean:
	rm -rf $(VENV) native/target build demo
