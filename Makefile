# What a newcomer needs: `make run` and `make test`. Everything else is listed by `make`.

SHELL := /bin/bash
CACHE := .cache
BIN := $(CURDIR)/$(CACHE)/bin
VENV := $(CACHE)/venv

# The race detector needs a C compiler.
RACE := $(shell command -v $$(go env CC) >/dev/null 2>&1 && echo -race)

.PHONY: help
help: ## this list
	@grep -hE '^[a-zA-Z_-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.PHONY: run
run: ## the dispatcher under the Lambda emulator, with a throw-away Postgres and a stand-in n8n
	@go run ./infra/demo

.PHONY: test
test: ## every test, on a real Postgres, with the race detector
	@[ -n "$(RACE)" ] || echo "no C compiler: testing without the race detector"
	go test $(RACE) -timeout 10m ./...

.PHONY: check
check: lint template ## lint of the Go code and of the templates, and their tests

.PHONY: lint
lint: $(BIN)/staticcheck ## gofmt, go vet, staticcheck, go mod tidy, import direction
	@test -z "$$(gofmt -l functions internal infra | tee /dev/stderr)" || { echo "run gofmt -w on these"; exit 1; }
	go vet ./...
	$(BIN)/staticcheck ./...
	go mod tidy -diff
	go test ./internal/

$(BIN)/%: infra/tools/go.mod infra/tools/go.sum
	@mkdir -p $(BIN)
	cd infra/tools && GOBIN=$(BIN) go install honnef.co/go/tools/cmd/$(@F)

.PHONY: template
template: $(VENV)/done ## cfn-lint, sam validate, sam build, tests of the translated template
	$(VENV)/bin/cfn-lint template.yaml infra/observability.yaml infra/database.yaml
	SAM_CLI_TELEMETRY=0 $(VENV)/bin/sam validate --lint --region eu-central-1
	SAM_CLI_TELEMETRY=0 $(VENV)/bin/sam build
	$(VENV)/bin/pytest -q infra/tests

$(VENV)/done: infra/requirements.txt infra/constraints.txt
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install -q --disable-pip-version-check -r infra/requirements.txt -c infra/constraints.txt
	@touch $@

.PHONY: fuzz
FUZZTIME ?= 1m
fuzz: ## each fuzz target for a while (FUZZTIME=1m)
	@set -e; for pkg in $$(go list ./internal/... ./functions/...); do \
	  for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 5s $$pkg; done; done

.PHONY: bench
bench: ## this program beside the limits of HTTP and SQL, and beside River
	cd infra/bench && go run . $(BENCH)

.PHONY: chaos
chaos: ## kill everything at every step, and see that nothing is lost
	go run ./infra/chaos $(CHAOS)

.PHONY: e2e
e2e: ## against a real n8n, which it installs with npm
	go run ./infra/e2e $(E2E)

# `sam build` calls these two, by way of infra/make/ARCHITECTURE/Makefile, which says for
# which processor to build.
LAMBDA_GOARCH ?= arm64
BUILD = CGO_ENABLED=0 GOOS=linux GOARCH=$(LAMBDA_GOARCH) go build -buildvcs=false -tags lambda.norpc -trimpath -ldflags='-s -w' -o "$(ARTIFACTS_DIR)/bootstrap"

.PHONY: build-DispatcherFunction build-OperatorFunction
build-DispatcherFunction:
	$(BUILD) ./functions/dispatcher
build-OperatorFunction:
	$(BUILD) ./functions/operator

.PHONY: clean
clean: ## remove what builds and runs left in the tree
	rm -rf $(CACHE) .aws-sam
