# make install   .venv with the command gridwright
# make demo      proves examples/this-machine.yaml on this machine's disk
# make check     format, lint, types, unit tests: the inner loop
# make test      all checks; it ends with the time of each part and the slowest tests
# make test-thorough   the same with many more examples and seeds, and emulated machines: hours
# make lint-playbook   the Ansible roles alone
# make lint-templates the templates of CloudFormation and Terraform alone
# make test-vm   the checks on virtual machines alone: md, XFS, NFS, iSCSI, NVMe and systemd of real kernels
# make dist      a wheel and a source distribution in dist/; the wheel is proven where there is no compiler
# make docs      the documents as a site in build/site, which needs no network; every link is tested
# make deb       a Debian package in dist/, with a virtual environment of its own
# make container an image of it, where podman, buildah or docker is there
# make lock      pins the Python dependencies anew

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CARGO := cargo
MANIFEST := --manifest-path native/Cargo.toml
NATIVE := $(shell find native -path native/target -prune -o \( -name '*.rs' -o -name 'Cargo.*' \) -print)
export PIP_DISABLE_PIP_VERSION_CHECK = 1
export PIP_QUIET = 1

.PHONY: install demo check test test-thorough test-vm lint-playbook lint-templates lock clean test-packages dist deb container docs
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

$(VENV)/dist: requirements/dist.lock $(VENV)/python
	$(PYTHON) -m venv --clear $(VENV)/dist-venv
	$(VENV)/dist-venv/bin/python -m pip install --quiet --require-hashes -r requirements/dist.lock
	@touch $@

# The wheel is built out of the source distribution, so that this one is known to be whole, and linked by zig for
# glibc 2.17, so that it is never what keeps Gridwright off a system. What is made is what is tested.
dist: install $(VENV)/dist
	rm -rf dist
	packaging/carried.sh $(BIN)/python
	PATH="$(CURDIR)/$(VENV)/dist-venv/bin:$$PATH" $(BIN)/maturin build --release --locked --strip --quiet \
		--sdist --zig --compatibility manylinux2014 --out dist
	GRIDWRIGHT_WHEEL="$$(echo $(CURDIR)/dist/*.whl)" $(BIN)/pytest -q tests/integration/test_install.py
	ls -l dist

deb: dist
	PIP="$(BIN)/python -m pip" packaging/deb.sh dist/*.whl dist

container: deb
	packaging/container.sh dist

$(VENV)/docs: requirements/docs.lock $(VENV)/python
	$(PYTHON) -m venv --clear $(VENV)/docs-venv
	$(VENV)/docs-venv/bin/python -m pip install --quiet --require-hashes -r requirements/docs.lock
	@touch $@

# Without a cache of its own: what is built is what a first build makes.
docs: install $(VENV)/docs
	rm -rf build/site
	$(VENV)/docs-venv/bin/sphinx-build --quiet --fail-on-warning --keep-going -E -d build/doctrees -c docs/site docs build/site
	$(BIN)/python tools/site.py build/site

# A missed requirement (exit status 1) is a result of the demo, not a failure of it.
demo: install
	@mkdir -p demo/data demo/work demo/util
	$(BIN)/gridwright prove examples/this-machine.yaml --seconds 4s || test $$? -eq 1

test-packages:
	PYTHON=$(PYTHON) tools/debian-packages.sh test

check: install
	$(BIN)/python tools/checks.py check

# The playbook as it is rendered, at the strictest profile of ansible-lint; it asks no network. A role has the same
# bytes in each grid that has it: it is looked at once.
lint-playbook: install
	$(BIN)/gridwright render examples/aws-lustre.yaml --out build/rendered --overwrite > /dev/null
	cd build/rendered && PATH="$(CURDIR)/$(BIN):$$PATH" ansible-lint --offline --profile production -q site.yml group_vars roles
	$(BIN)/gridwright render examples/aws-product.yaml --out build/rendered-product --overwrite > /dev/null
	cd build/rendered-product && PATH="$(CURDIR)/$(BIN):$$PATH" ansible-lint --offline --profile production -q roles/product
	$(BIN)/gridwright render examples/oci-scale.yaml --out build/rendered-oci --overwrite > /dev/null
	cd build/rendered-oci && PATH="$(CURDIR)/$(BIN):$$PATH" ansible-lint --offline --profile production -q --exclude roles -- site.yml group_vars
	cd build/rendered-oci && PATH="$(CURDIR)/$(BIN):$$PATH" ansible-lint --offline --profile production -q \
		$$(for role in roles/*; do test -d ../rendered/$$role || echo $$role; done)
	$(BIN)/gridwright render examples/aws-lustre.yaml --out build/image --image --overwrite > /dev/null
	cd build/image/playbook && PATH="$(CURDIR)/$(BIN):$$PATH" ansible-lint --offline --profile production -q --exclude roles -- image.yml

# Specs whose templates are looked at: the examples of AWS, and both ways of the papers.
ON_AWS := $(wildcard examples/aws-*.yaml) examples/papers/000-all-on-lustre.yaml examples/papers/002-fsx-lustre.yaml

$(VENV)/checkov: requirements/checkov.lock $(VENV)/python
	$(PYTHON) -m venv --clear $(VENV)/checkov-venv
	$(VENV)/checkov-venv/bin/python -m pip install --quiet --require-hashes -r requirements/checkov.lock
	@touch $@

# Terraform of the examples on OCI: Scale with pairs, what Oracle runs, and the paper.
ON_OCI := examples/oci-scale.yaml examples/oci-managed-lustre.yaml examples/papers/003-spectrum-scale.yaml

# Checks that are left out stand in .checkov.yaml and in tests/support/oci_checkov.py, each with its reason.
lint-templates: install $(VENV)/checkov
	rm -rf build/aws
	for spec in $(ON_AWS); do \
		$(BIN)/gridwright render $$spec --out build/aws/$$(basename $$spec .yaml) > /dev/null || exit 1; \
	done
	$(BIN)/cfn-lint build/aws/*/*.template.*
	$(VENV)/checkov-venv/bin/checkov --config-file .checkov.yaml --skip-download --quiet --compact --framework cloudformation \
		$$(printf -- ' --file %s' build/aws/*/*.template.*)
	rm -rf build/oci
	for spec in $(ON_OCI); do \
		$(BIN)/gridwright render $$spec --out build/oci/$$(basename $$spec .yaml) > /dev/null || exit 1; \
	done
	$(BIN)/python -m tests.support.oci_checkov build/oci/*

test: test-packages install $(VENV)/checkov $(VENV)/docs
	$(BIN)/python tools/checks.py test

test-thorough: test-packages install $(VENV)/checkov $(VENV)/docs
	$(BIN)/python tools/checks.py test-thorough

test-vm: install
	PYTHON=$(PYTHON) tools/debian-packages.sh vm
	$(BIN)/python -m tests.vm.images
	$(BIN)/python -m tests.vm.boot_image
	$(BIN)/pytest tests/vm -n 2 --durations=10

lock: install
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --extra dev --extra workload --extra aws --extra repository \
		--no-header --no-annotate pyproject.toml --output-file requirements/dev.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --extra workload --extra aws --extra repository \
		--constraint requirements/dev.lock --no-header --no-annotate pyproject.toml --output-file requirements/run.lock
	for apart in checkov dist docs; do \
		$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
			--no-header --no-annotate requirements/$$apart.in --output-file requirements/$$apart.lock || exit 1; \
	done
	for release in requirements/ansible-*.in; do \
		$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate $$release \
			--python-version $$(sed -n 's/^# Python //p' $$release) --output-file $${release%.in}.lock || exit 1; \
	done

clean:
	rm -rf $(VENV) native/target build demo dist
