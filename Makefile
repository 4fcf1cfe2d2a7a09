# Everything that is done in this repository, by name: "make help" lists it.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN  := bin/securebench
LINT := bin/golangci-lint

# The binary names its revision if git knows it. An unpacked archive, or a
# checkout that belongs to another user, builds without one.
BUILDVCS := $(shell git rev-parse HEAD >/dev/null 2>&1 && echo true || echo false)

# Tests are built as bin/securebench is, so that most packages are compiled
# once for both; "make lint" looks at them, also as go vet does.
GO_TEST = CGO_ENABLED=0 go test -trimpath -vet=off -ldflags='-s -w' $(TEST_FLAGS)

# Runs tests with an engine: they are given the images, a helper that is built, and which
# engines must be there.
ENGINE_TEST = agents=$$(scripts/agents.sh $(BIN)); engines=$$(scripts/engine.sh $(BIN) all); \
	tried() { grep -qx $$1 <<<"$$engines" && echo require || echo never; }; \
	SECUREBENCH_IMAGES=$${SECUREBENCH_IMAGES:-$${XDG_DATA_HOME:-$$HOME/.local/share}/securebench/images} \
	SECUREBENCH_TEST_HELPER=$(CURDIR)/bin/test-helper SECUREBENCH_TEST_BROWSER=never SECUREBENCH_TEST_AGENTS=$$agents SECUREBENCH_TEST_DOCKER=$$(tried docker) SECUREBENCH_TEST_NATIVE=$$(tried native) \
	$(GO_TEST) -timeout 30m -p 2 -parallel 4

# ENGINE is the engine of "make demo": auto, native or docker.
ENGINE ?= auto

# How long each fuzz target runs in "make fuzz".
FUZZTIME ?= 10s

# DATA is the folder that holds the public data sets; docs/quickstart.md says
# how it is laid out.
DATA ?=

# REPOS is the folder that holds clones of SWE-bench's repositories; without it,
# that data set is left out.
REPOS ?=

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: go
go:
	@command -v go >/dev/null || { echo 'Go is missing: install Go 1.26 or newer' >&2; exit 1; }

.PHONY: build
build: go ## build bin/securebench
	CGO_ENABLED=0 go build -trimpath -buildvcs=$(BUILDVCS) -ldflags '-s -w' -o $(BIN) ./cmd/securebench

.PHONY: engine
engine: build ## make sure that a sandbox engine runs (installs what it needs as root)
	@scripts/engine.sh $(BIN) $(ENGINE)

.PHONY: image
image: build ## make sure that the images securebench-python:3 and securebench-pytest:1 are there
	@engines=$$(scripts/engine.sh $(BIN) all); for engine in $$engines; do scripts/image.sh $(BIN) $$engine; done

.PHONY: agents-test
agents-test: build image ## run every agent of the catalogue against a scripted provider
	SECUREBENCH_TEST_AGENTS=require SECUREBENCH_TEST_ALL_AGENTS=1 SECUREBENCH_TEST_WHOLE=1 SECUREBENCH_TEST_BROWSER=never \
	SECUREBENCH_IMAGES=$${SECUREBENCH_IMAGES:-$${XDG_DATA_HOME:-$$HOME/.local/share}/securebench/images} \
		$(GO_TEST) ./cmd/securebench -run 'RealAgents|RealACP|AgentSettings|CatalogueAgents|BareImages|CanaryKey|Additions|VendorLibraries' -timeout 60m

.PHONY: demo
demo: build ## run the demo pack in real sandboxes and print a table
	@engine=$$(scripts/engine.sh $(BIN) $(ENGINE)); scripts/image.sh $(BIN) $$engine securebench-python:3; scripts/demo.sh $(BIN) $$engine

.PHONY: own-agent
own-agent: build ## run the agent of examples/own-agent, without a key: a script plays its model
	@engine=$$(scripts/engine.sh $(BIN) $(ENGINE)); scripts/image.sh $(BIN) $$engine securebench-python:3; scripts/own-agent.sh $(BIN) $$engine

.PHONY: schema
schema: build ## write schema/, the published JSON Schemas
	$(BIN) schema -o schema

.PHONY: pictures
pictures: build ## take the pictures of docs/pictures anew, in a real browser and terminal (needs Chromium and tmux)
	@engine=$$(scripts/engine.sh $(BIN) $(ENGINE)); scripts/image.sh $(BIN) $$engine securebench-python:3; scripts/pictures.sh $(BIN) $$engine; scripts/terminal-picture.sh $(BIN) $$engine

# A module of its own: nothing of it is linked into the program. The packages come from
# the npm registry, as the npm client is configured.
CLDR ?= 48.2.0

.PHONY: vocabulary
vocabulary: go ## write the words of Unicode CLDR anew (needs npm)
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
		for package in cldr-dates-full cldr-units-full cldr-rbnf; do \
			mkdir "$$dir/$$package"; npm pack --silent --pack-destination "$$dir" "$$package@$(CLDR)" >/dev/null; \
			tar -xzf "$$dir/$$package-$(CLDR).tgz" -C "$$dir/$$package" --strip-components=1; \
		done; \
		cd tools/cldr && go run -trimpath . "$$dir" ../../internal/family/textmatch/vocabulary/data

.PHONY: check
check: fmt-check modules lint ## formatting, modules, lint, tests without an engine: under a minute
	SECUREBENCH_TEST_DOCKER=never SECUREBENCH_TEST_NATIVE=never $(GO_TEST) -short -timeout 5m ./...

# Each test runs once, in one of these runs, of which two are side by side;
# scripts/packages.sh says in which. The lines of two of them begin with "race:" and
# "browser:". More at a time would make a small machine so slow that limits on time end
# what is right. What they need is there before them, so that make begins with the first
# two: the longest, and the one that waits for no engine.
TESTS := engine-tests race left-tests browser-tests

.PHONY: test
test: image fmt-check modules build packs manifests test-helper ## everything but lint: the tests, with every engine that runs
	@$(MAKE) --no-print-directory -j2 -o go -o test-helper $(TESTS)

.PHONY: test-helper
test-helper: go build
	@CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-s -w' -o bin/test-helper ./internal/sandbox/enginetest/helper

# Tests that use an engine take turns, as enginetest says, however many run at a time.
.PHONY: engine-tests
engine-tests: test-helper
	$(ENGINE_TEST) $$(scripts/packages.sh whole)

# What the race detector leaves out of the packages that run under it.
.PHONY: left-tests
left-tests: test-helper
	@left=$$(scripts/packages.sh left); names=$$(cut -d ' ' -f 2 <<<"$$left" | sort -u | paste -sd '|'); \
		[ -z "$$left" ] || { $(ENGINE_TEST) -run "^($$names)\$$" $$(cut -d ' ' -f 1 <<<"$$left" | uniq); }

.PHONY: test-times
test-times: image test-helper ## show where the time of "make test" goes
	@$(MAKE) --no-print-directory -j2 -o go -o test-helper TEST_FLAGS='-json -count=1' $(TESTS) | scripts/test-times.sh

# Not a part of "make test": it takes an hour or more.
.PHONY: nightly
nightly: ## make test with all cases of large sets of them, of which "make test" runs a sample, then make fuzz
	SECUREBENCH_TEST_WHOLE=1 $(MAKE) --no-print-directory test TEST_FLAGS=-count=1
	@$(MAKE) --no-print-directory fuzz

# What is shown in a browser is tested in a real one (installs it as root).
.PHONY: browser-tests
browser-tests: go
	@browser=$$(scripts/browser.sh); SECUREBENCH_TEST_BROWSER=$$browser $(GO_TEST) -timeout 10m ./internal/viewer 2>&1 | sed -u 's/^/browser: /'

# How often each test runs in "make luck".
TIMES ?= 50

# Not a part of "make test": it takes hours.
.PHONY: luck
luck: image test-helper ## run the tests that busy machines have failed TIMES times (default 50) beside two busy loops
	@SECUREBENCH_IMAGES=$${SECUREBENCH_IMAGES:-$${XDG_DATA_HOME:-$$HOME/.local/share}/securebench/images} \
		SECUREBENCH_TEST_HELPER=$(CURDIR)/bin/test-helper scripts/luck.sh $(TIMES)

# A sample of it is a part of "make test".
.PHONY: faults
faults: image build ## kill, fill, starve and hang everything that docs/faults.md names: an hour or more
	@scripts/faults.sh $(BIN)

# Not a part of "make test": without KVM it takes an hour.
.PHONY: machine
machine: build ## run the tests of control groups and of the native engine in emulated machines
	scripts/machines.sh $(BIN)

# Not a part of "make test": it installs Slurm, as root.
.PHONY: slurm-test
slurm-test: build ## run shards and workers on a Slurm cluster of two nodes, of which one is killed (installs Slurm as root)
	@engine=$$(scripts/engine.sh $(BIN) $(ENGINE)); scripts/image.sh $(BIN) $$engine securebench-python:3; scripts/slurm-test.sh $(BIN) $$engine

# Not a part of "make test": it takes half an hour or more, and makes networks, as root.
# SEEDS chooses runs of the second part.
SEEDS ?= 1 2 3 4 5 6 7 8 9 10

.PHONY: fleet-test
fleet-test: build ## compare shards and workers with one machine, then let everything fail around a hub and workers (makes networks as root)
	@engine=$$(scripts/engine.sh $(BIN) $(ENGINE)); scripts/image.sh $(BIN) $$engine; \
		SECUREBENCH_IMAGES=$${SECUREBENCH_IMAGES:-$${XDG_DATA_HOME:-$$HOME/.local/share}/securebench/images} \
		SECUREBENCH_TEST_FLEET=1 SECUREBENCH_TEST_WHOLE=1 SECUREBENCH_TEST_ENGINE=$$engine $(GO_TEST) -count=1 -timeout 1h -run '^TestSpread$$' ./cmd/securebench; \
		scripts/fleet-test.sh $(BIN) $$engine $(SEEDS)

# Modules of their own, of which nothing is linked into the program. The tests of the first
# read files outside of it, which Go's cache of test results does not see.
.PHONY: manifests
manifests: go ## decode the manifests of "launch k8s" with Kubernetes' own types; test the other tools
	cd tools/k8s && go mod tidy -diff && CGO_ENABLED=0 go test -count=1 -trimpath ./...
	cd tools/cldr && go mod tidy -diff && CGO_ENABLED=0 go test -trimpath ./...

.PHONY: fmt-check
fmt-check:
	@bad=$$(gofmt -l cmd internal tools); if [ -n "$$bad" ]; then printf 'not formatted (run gofmt -w):\n%s\n' "$$bad" >&2; exit 1; fi

.PHONY: modules
modules: go
	go mod tidy -diff
	go mod verify

# The race detector needs a C compiler. Under it, tests that repeat one computation many
# times repeat it less often (-short), and no engine is there, so that it can run beside
# the tests that need one.
.PHONY: race
race: go ## run tests under the race detector
	@packages=$$(scripts/packages.sh raced); \
	if [ -n "$$packages" ]; then \
		SECUREBENCH_TEST_AGENTS=never SECUREBENCH_TEST_BROWSER=never SECUREBENCH_TEST_DOCKER=never SECUREBENCH_TEST_NATIVE=never CGO_ENABLED=1 go test -trimpath -vet=off -ldflags='-s -w' -race -short -v -timeout 20m $(TEST_FLAGS) $$packages 2>&1 | \
			scripts/raced.sh <(scripts/packages.sh left) | sed -u 's/^/race: /'; \
	else \
		echo 'skipped: the race detector needs a C compiler' >&2; \
	fi

.PHONY: packs
packs: build ## check the packs of this repository
	@for pack in packs/*/; do $(BIN) pack check "$$pack"; done

.PHONY: lint
lint: $(LINT) ## lint the Go code, also as go vet does, and the scripts
	$(LINT) run
	@if command -v shellcheck >/dev/null; then shellcheck -x -P SCRIPTDIR scripts/*.sh .ci/run; else echo 'skipped: no shellcheck, the scripts are not linted' >&2; fi

$(LINT): tools/go.mod tools/go.sum
	@scripts/linter.sh $(LINT)

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (default 10s)
	@scripts/fuzz.sh $(FUZZTIME)

.PHONY: bench
bench: image build ## run the benchmarks, and securebench bench --quick
	go test -run '^$$' -bench . -benchmem ./...
	$(BIN) bench --quick

.PHONY: download
download: ## make DATA=DIR download: put ClassEval and HumanEval-X into DIR, from pinned commits
	@scripts/download.sh '$(DATA)'

.PHONY: data
data: build ## make DATA=DIR data: import the data sets of DIR into data/
	@scripts/data.sh $(BIN) '$(DATA)' '$(REPOS)'

.PHONY: accept
accept: image data ## make DATA=DIR accept: score the data sets of DIR, compare with their own figures
	@scripts/accept.sh $(BIN) '$(DATA)'

# Not a part of "make test": it installs their packages.
.PHONY: export-test
export-test: build ## open what securebench export writes with Inspect, pandas and Harbor's models
	@scripts/export-test.sh $(BIN)

.PHONY: dist
dist: go ## build the archives, wheels, packages, images, checksums and SBOMs of a release into dist/
	rm -rf dist
	go run ./cmd/dist -o dist -vcs=$(BUILDVCS)

.PHONY: reproduce
reproduce: go ## build a release twice, at two paths, and compare the bytes
	@scripts/reproduce.sh

# PREFIX is where "make install" puts the program, its completions and its manual;
# DESTDIR is a folder that stands for / while a package is made.
PREFIX  ?= /usr/local
DESTDIR ?=

.PHONY: install
install: build ## install the program, completions and manual below PREFIX (default /usr/local)
	install -D -m 0755 $(BIN) '$(DESTDIR)$(PREFIX)/bin/securebench'
	install -d '$(DESTDIR)$(PREFIX)/share/man/man1' '$(DESTDIR)$(PREFIX)/share/bash-completion/completions' '$(DESTDIR)$(PREFIX)/share/zsh/site-functions' '$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d'
	$(BIN) man -o '$(DESTDIR)$(PREFIX)/share/man/man1'
	$(BIN) completion bash > '$(DESTDIR)$(PREFIX)/share/bash-completion/completions/securebench'
	$(BIN) completion zsh > '$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_securebench'
	$(BIN) completion fish > '$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/securebench.fish'

.PHONY: clean
clean: ## remove what was built, imported and run
	rm -rf bin data dist runs
