# Everything that is done in this repository, by name: "make help" lists it.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN  := bin/securebench
LINT := bin/golangci-lint

# The binary names its revision if git knows it. An unpacked archive, or a
# checkout that belongs to another user, builds without one.
BUILDVCS := $(shell git rev-parse HEAD >/dev/null 2>&1 && echo true || echo false)

# The race detector slows what drives sandboxes: it runs over all other packages.
RACE_PACKAGES = $(shell go list ./internal/... | grep -Ev '/(sandbox/docker|family/codecompletion)$$')

# How long each fuzz target runs in "make fuzz".
FUZZTIME ?= 10s

# DATA is the folder that holds the public data sets; docs/quickstart.md says
# how it is laid out.
DATA ?=

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
engine: ## make sure that a Docker engine answers (installs one as root)
	@scripts/engine.sh

.PHONY: image
image: go engine ## make sure that the image securebench-python:3 is there
	@scripts/image.sh

.PHONY: demo
demo: image build ## run the demo pack in real sandboxes and print a table
	@scripts/demo.sh $(BIN)

.PHONY: check
check: fmt-check modules vet lint ## formatting, modules, vet, lint, tests without an engine: under a minute
	SECUREBENCH_TEST_DOCKER=never go test -short -timeout 5m ./...

.PHONY: test
test: image fmt-check modules vet build packs race ## everything but lint: all tests, with a real engine
	SECUREBENCH_TEST_DOCKER=require go test -timeout 15m ./...

.PHONY: fmt-check
fmt-check:
	@bad=$$(gofmt -l cmd internal); if [ -n "$$bad" ]; then printf 'not formatted (run gofmt -w):\n%s\n' "$$bad" >&2; exit 1; fi

.PHONY: modules
modules: go
	go mod tidy -diff
	go mod verify

.PHONY: vet
vet: go
	go vet ./...

# The race detector needs a C compiler. Under it, tests that repeat one
# computation many times repeat it less often (-short): "make test" runs them
# in full without it.
.PHONY: race
race: go ## run tests under the race detector
	@if command -v $${CC:-gcc} >/dev/null; then \
		CGO_ENABLED=1 go test -race -short -timeout 10m $(RACE_PACKAGES); \
	else \
		echo 'skipped: the race detector needs a C compiler' >&2; \
	fi

.PHONY: packs
packs: build ## check the packs of this repository
	@for pack in packs/*/; do $(BIN) pack check "$$pack"; done

.PHONY: lint
lint: $(LINT) ## lint the Go code and the scripts
	$(LINT) run
	@if command -v shellcheck >/dev/null; then shellcheck -x -P SCRIPTDIR scripts/*.sh .ci/run; else echo 'skipped: no shellcheck, the scripts are not linted' >&2; fi

$(LINT): tools/go.sum
	cd tools && go build -o ../$(LINT) github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (default 10s)
	@scripts/fuzz.sh $(FUZZTIME)

.PHONY: bench
bench: image ## run the benchmarks
	go test -run '^$$' -bench . -benchmem ./...

.PHONY: data
data: build ## make DATA=DIR data: import the data sets of DIR into data/
	@scripts/data.sh $(BIN) '$(DATA)'

.PHONY: accept
accept: image data ## make DATA=DIR accept: score the data sets of DIR, compare with their own figures
	@scripts/accept.sh $(BIN) '$(DATA)'

.PHONY: clean
clean: ## remove what was built, imported and run
	rm -rf bin data runs
