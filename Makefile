GO      ?= go
LDFLAGS := -s -w
PKGS    := ./...
export CGO_ENABLED ?= 0
# The flags of every build, of programs, tests and tools, in every folder: what has
# been compiled with other flags or in another checkout would be compiled again.
export GOFLAGS := $(strip $(GOFLAGS) $(shell cat deploy/build.flags) -trimpath)
# The race detector needs a C compiler; without one the tests still run.
RACE    := $(if $(shell command -v cc || command -v gcc || command -v clang),-race)

.PHONY: race race-shared web web-check web-test web-types web-bench web-shots check check-deep mcp-suite build build-whatsapp run install test tests cross bench bench-against fuzz lint fmt fmt-check vet update docs deps deps-check hooks tools-test shape release clean help

# The linter runs all of go vet's checks, so that check has no vet of its own.
check: fmt-check lint deps-check web-check tools-test tests race-shared web-test ## the definition of done; of the browser tests those that take three minutes
check: SPECS = --quick
check: SHARED_LATER = 1

check-deep: check race ## check, and whether tests notice deliberate breakages of the core
	cd tools && $(GO) run ./mutate -root .. internal/core/runner internal/core/agent internal/core/turn=internal/core/agent internal/core/session internal/guard/approve internal/guard
	if command -v npx >/dev/null; then $(MAKE) mcp-suite; else echo "npx is missing: the MCP conformance suite is left out"; fi

mcp-suite: ## the client part of the public MCP conformance suite; needs npx and the network
	NANOBOT_MCP_SUITE='npx --yes --package node@22 --package @modelcontextprotocol/conformance@0.1.16 conformance' $(GO) test -run TestConformanceSuite -count=1 -v ./internal/tool/mcp

build: ## static binary in ./nanobot
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o nanobot ./cmd/nanobot

build-whatsapp: ## nanobot-whatsapp in ./nanobot-whatsapp, under the GPL
	cd cmd/nanobot-whatsapp && $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o ../../nanobot-whatsapp .

run: ## start a chat; without a model, a demo answers
	$(GO) run ./cmd/nanobot agent

install: ## nanobot and nanobot-whatsapp, which is under the GPL, where Go puts programs
	$(GO) install -trimpath -ldflags '$(LDFLAGS)' ./cmd/nanobot
	cd cmd/nanobot-whatsapp && $(GO) install -trimpath -ldflags '$(LDFLAGS)' .

# The tests of test/security only watch the real program from outside, many at a time.
# They take longest and mostly wait: they begin first, beside the others.
OUTSIDE := ./test/security

# Packages whose goroutines share memory. check runs their tests with the race
# detector alone; decision 104 says why the others have it only in make race.
SHARED := ./internal/core/agent ./internal/core/turn/... ./internal/core/prompt ./internal/core/explain ./internal/core/transcript ./internal/bus/... ./internal/chat ./internal/chat/access ./internal/chat/deliver ./internal/chat/kit ./internal/web/socket ./internal/core/runner ./internal/core/schedule ./internal/core/session/... ./internal/base/socket ./internal/base/store/...

# By default every process with the race detector sleeps for a second before it
# ends, and so does every child that a test starts. Reports that are being
# written are waited for without it.
race race-shared: export GORACE := atexit_sleep_ms=0

# Many tests wait, for rate limits and for other programs: twice as many packages
# as there are processors keep the processors busy.
PACKAGES := $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))
TEST := $(GO) test -p $(PACKAGES) -vet=off -shuffle=on -count=1 -timeout 60m
WITHRACE := CGO_ENABLED=$(if $(RACE),1,0) $(TEST) $(RACE)

test: fmt-check vet tests ## all tests

# SHARED_LATER=1 leaves out what is run with the race detector afterwards (decision
# 149).
tests: ## the tests alone, without go vet
	$(TEST) $(OUTSIDE) $$($(GO) list $(PKGS) | grep -vxF "$$($(GO) list $(OUTSIDE) $(if $(SHARED_LATER),$(SHARED)))")
	cd cmd/nanobot-whatsapp && $(GO) vet ./... && $(GO) test -vet=off -shuffle=on -count=1 -timeout 15m ./...

race-shared: ## tests of packages whose goroutines share memory, with the race detector
	$(WITHRACE) $(SHARED)

race: ## all tests that run our code, with the race detector
	$(WITHRACE) $$($(GO) list $(PKGS) | grep -vxF "$$($(GO) list $(OUTSIDE))")

vet: ## go vet
	$(GO) vet $(PKGS)

fmt-check: ## is everything formatted?
	@bad=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$bad" ]; then echo "not formatted:"; echo "$$bad"; exit 1; fi

fmt: ## gofmt, and prettier for the pages where it is installed
	gofmt -w $$(git ls-files '*.go')
	@if [ -d web/node_modules/prettier ]; then cd web && node node_modules/prettier/bin/prettier.cjs --write --log-level warn src test; fi

# Its cache belongs to this checkout: findings keep the path of the checkout they
# were first seen in, and the exclusions by path would not match it from another.
lint: ## golangci-lint at the version pinned in tools/go.mod
	GOLANGCI_LINT_CACHE=$(CURDIR)/.cache/lint $(GO) tool -modfile=tools/go.mod golangci-lint run --allow-parallel-runners

# Programs are nanobot and, in a module of its own and under the GPL,
# nanobot-whatsapp, whose licence lies beside it.
cross: ## build both programs for every target, without cgo
	@mkdir -p dist && cp cmd/nanobot-whatsapp/COPYING dist/nanobot-whatsapp.COPYING
	@for t in linux/amd64 linux/arm64 linux/arm linux/riscv64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64; do \
		for p in nanobot nanobot-whatsapp; do \
			out=$(CURDIR)/dist/$$p-$${t%/*}-$${t#*/}; \
			printf '%-16s %-16s ' $$t $$p; \
			(cd cmd/$$p && GOOS=$${t%/*} GOARCH=$${t#*/} GOARM=7 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $$out .) || exit 1; \
			stat -c '%s bytes' $$out 2>/dev/null || stat -f '%z bytes' $$out; \
		done; \
	done

bench: ## figures of docs/explanation/benchmarks.md
	$(GO) run ./test/bench

bench-against: ## the program beside that of another commit: make bench-against REV=HEAD~1
	$(GO) run ./test/bench -against $(REV)

fuzz: ## 30 s per target
	@for p in $$($(GO) list $(PKGS)); do \
		for f in $$($(GO) test -list '^Fuzz' $$p | grep ^Fuzz); do \
			echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime 30s $$p || exit 1; \
		done; \
	done

update: ## rewrite golden files
	$(GO) test ./internal/run/config ./internal/tool/files ./internal/cli/tui ./cmd/nanobot -update
	$(GO) test ./internal/base/markdown $$(grep -rl --include='*_test.go' 'markdowntest\.Golden(' internal/chat/platform | sed 's|^|./|; s|/[^/]*$$||' | sort -u) -run Samples -update

docs: ## rewrite the generated parts of docs/
	$(GO) test ./test/arch -run 'TestConfigReference|TestDataFolderPage' -update

# Packages of others that end up in the binary, on any system.
LINKED = for os in linux darwin windows; do GOOS=$$os $(GO) list -deps -f '{{if not .Standard}}{{.ImportPath}}{{end}}' ./cmd/nanobot; done | grep -v "^$$($(GO) list -m)" | sort -u

deps: ## list what is linked into the binary, and the direct dependencies
	@$(LINKED) > docs/deps.txt
	$(GO) test ./test/arch -run TestDependencyTable -count=1 -update

deps-check: ## is docs/deps.txt current?
	@$(LINKED) | diff docs/deps.txt - || { echo "docs/deps.txt is stale: run make deps"; exit 1; }

tools-test: ## tests of our own tools, which are not part of the product
	cd tools && $(GO) test -count=1 ./...

release: ## join docs/changes in CHANGELOG.md: make release VERSION=0.2.0
	cd tools && $(GO) run ./changelog -root .. -version "$(VERSION)"

shape: ## lines, types, duplicates and more, beside a month ago or SINCE=commit; ALL=1 for complete tables
	@cd tools && $(GO) run ./shape -root .. $(if $(SINCE),-since $(SINCE)) $(if $(ALL),-all)

hooks: ## check commit messages before git accepts them
	@at=$$(git rev-parse --git-path hooks)/commit-msg; \
	if [ -e "$$at" ] && ! grep -q tools/commitmsg "$$at"; then echo "$$at is another hook: remove it first, or call tools/commit-msg from it"; exit 1; fi; \
	mkdir -p "$$(dirname "$$at")" && cp tools/commit-msg "$$at" && chmod +x "$$at" && echo "installed $$at"

# The pages are built by a module of its own, which needs neither Node nor what
# web/package.json names.
WEB = cd web/build && $(GO) run . -root ../..

web: ## bundle web/src into internal/web/pages/dist
	$(WEB)

web-check: ## are the committed pages and the types of their wire what the sources give?
	$(WEB) -check
	$(WEBTYPES) -check

# It needs Node 20 and the packages of web/package.json; the browser tests need
# Chromium, too. What is missing is said and left out.
web-test: ## form, types, unit tests and browser tests of the pages
	@set -e; if ! command -v node >/dev/null; then echo "node is missing: the tests of the pages are left out"; exit 0; fi; \
	rm -rf web/.unit; ($(WEB) -tests ../.unit); node --test --test-reporter=dot web/.unit/*.test.mjs; \
	if [ ! -d web/node_modules ]; then echo "web/node_modules is missing: type check and browser tests of the pages are left out; run npm ci in web"; exit 0; fi; \
	(cd web; node node_modules/typescript/bin/tsc --noEmit; node node_modules/prettier/bin/prettier.cjs --check --log-level warn src test); \
	node web/test/browser/run.mjs $(SPECS)

WEBTYPES = cd tools && $(GO) run ./webtypes -root ..

web-types: ## the types of the wire for the pages, from the Go code
	$(WEBTYPES)

web-bench: ## figures of the pages in docs/explanation/benchmarks.md; needs Node and Chromium
	node web/test/bench.mjs

web-shots: ## the screenshots of the READMEs; needs Node and Chromium
	node web/test/shots.mjs

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

clean: ## remove what was built
	rm -rf nanobot nanobot-whatsapp dist bench-out web/.unit web/shots
