# make test       everything, against real Kafka, Cassandra and PostgreSQL; installs what it needs
# make quick      unit and embedded tests only: no JVM, no network
# make help       the rest

SHELL := bash
.SHELLFLAGS := -euo pipefail -c

SERVICES := test/services/services.sh
FUZZTIME ?= 20s
SOAK     ?= 30m
CHAOS    ?= 30m
MODULES  := . clients/go
LINT     := GOGC=400 go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
export CGO_ENABLED := 0
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)

.DEFAULT_GOAL := build
.PHONY: help build test quick check lint-fix soak chaos bench fuzz mutants generate setup services-up services-down services-status clean

help: ## these lines
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 18

build: ## bin/waterclock, static
	go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/waterclock ./cmd/waterclock

# Go compiles while the rest is fetched: on a bare machine both take minutes.
test: ## everything: check, unit, simulated, embedded, foreign clients, real services
	@go list -deps -export -test ./... > /dev/null & trap "kill $$! 2> /dev/null || :" EXIT; trap "exit 130" INT TERM; \
	  test/setup.sh && wait
	test/run.sh

quick: check ## unit and embedded tests only
	@for module in $(MODULES); do echo "go test -short ./... in $$module"; (cd $$module && go test -short ./...); done

# The first run compiles the linter, some minutes on two cores; it stays in Go's cache.
check: ## go vet of what has build tags, golangci-lint with vet and gofumpt (.golangci.yml), the rules of the house
	@files=$$(git ls-files -co --exclude-standard '*.go' | xargs gofmt -l); \
	if [ -n "$$files" ]; then echo "gofmt -w" $$files; exit 1; fi
	@for tag in soak failpoints flaws nextformat; do \
	  packages=$$(git grep -lE "^//go:build.*\b$$tag\b" -- '*.go' | xargs -n1 dirname | sort -u | sed 's,^,./,'); \
	  echo "go vet -tags $$tag" $$packages; go vet -tags $$tag $$packages; \
	done
	cd clients/go && go vet ./... && go mod tidy -diff
	@for module in $(MODULES); do echo "golangci-lint in $$module"; (cd $$module && $(LINT) run ./...); done
	go test ./test/house
	go test ./examples -run 'TestLinesOf|TestLinks|TestCitations'

lint-fix: ## repairs what golangci-lint and gofumpt can
	$(LINT) run --fix ./...

soak: setup ## long tests: three nodes, TLS and ACLs, partitions; SOAK=30m each
	WATERCLOCK_TEST_SOAK=$(SOAK) test/run.sh -tags soak -timeout 6h -count 1 ./...

chaos: setup ## break a cluster of real processes for CHAOS=30m; SEED=42 repeats one, ONLY='broker' some faults
	WATERCLOCK_TEST_CHAOS=$(CHAOS) WATERCLOCK_TEST_CHAOS_SEED=$(SEED) WATERCLOCK_TEST_CHAOS_ONLY='$(ONLY)' \
	go test -v -count 1 -timeout 25h ./test/chaos

bench: setup ## every benchmark; results with their method are in bench/
	test/run.sh -run '^$$' -bench . -benchmem ./...

fuzz: ## every fuzz target for FUZZTIME=20s
	@for module in $(MODULES); do cd $(CURDIR)/$$module; go list ./... | while read -r package; do \
	  go test -list '^Fuzz' $$package < /dev/null | sed -n '/^Fuzz/p' | while read -r target; do \
	    echo "$$package $$target"; \
	    go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package < /dev/null; \
	  done; \
	done; done

mutants: ## changes of the product that some test must notice; the result is docs/mutants.md
	go run ./test/mutants -o docs/mutants.md

generate: ## what is generated from the sources
	go generate ./...

setup: ## what the tests need, installed or named
	test/setup.sh

services-up: ## start the services and print lines for eval
	@$(SERVICES) up

services-down: ## stop them and remove their data
	@$(SERVICES) down

services-status: ## what runs
	@$(SERVICES) status

clean: ## what was built
	rm -rf bin
