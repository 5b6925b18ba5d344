# What a person runs; .ci/run runs the same.
GO       ?= go
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZTIME ?= 10s
DURATION ?= 10m
BENCH    ?= .
# Most tests wait for servers and processes, so more packages than cores run at once.
PACKAGES ?= 6
# These take longest. They start first, so that none is left alone at the end.
LONGEST   = ./test/e2e ./store/redisstore ./subscriber/destination ./internal/program/app ./delivery ./publisher/source ./test/docs
# A program with the race detector waits for a second before it exits, and the tests start thousands.
RACE      = atexit_sleep_ms=10
LINT      = bin/golangci-lint
# With how many random inputs a test of pgregory.net/rapid tries a property.
CHECKS    = 30
# The tests that use test/draws, and those of properties that take long.
HISTORIES = TestAnyMixtureOfBodies|TestAnyOrder|TestHistories_|TestLossesAtRandom|TestMixtureOfWays|TestNeverTwo|TestRandomHistories|TestRoomAtRandom|TestSchedulersLeaveNoSenderAsleep|TestSnapshotsProperty|TestStoreAgrees|TestStrangersStopNobody|TestTurnsAreBounded|TestTurnsAreNeverLost|TestWhatRedisLoses
# Where the servers of Kubernetes are kept that `make kube` builds.
KUBE     ?= $(HOME)/.cache/rshub/kubernetes

export GOTOOLCHAIN = local

.DEFAULT_GOAL := help
.PHONY: help build run test lint fmt vuln fuzz fuzz-long nemesis histories soak alerts interop sources page image chart kube packages packaged release bench measure scale clean

help: ## Say what there is to run
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build the commands into bin/, static, without cgo
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/ ./cmd/...

run: ## Start a hub for trying things out on this machine
	$(GO) run ./cmd/rshub serve --dev

test: ## Run every test with the race detector; installs what it needs if missing (make lint has vet)
	@tools/need gcc
	@tools/need curl
	@tools/need xmllint
	@tools/need redis-server
	@tools/need promtool
	@tools/need python3
	@tools/need node
	CGO_ENABLED=1 GORACE=$(RACE) RAPID_CHECKS=$(CHECKS) $(GO) test -race -vet=off -p $(PACKAGES) -timeout 25m $(LONGEST) ./...

lint: $(LINT) ## Run vet and the other linters of .golangci.yml, formatting included
	$(LINT) run ./...
	cd test/page && ../../$(LINT) run ./...
	cd test/chart && ../../$(LINT) run ./...

fmt: $(LINT) ## Format every Go file as the linters want it
	$(LINT) fmt ./...

vuln: ## Look for known vulnerabilities in dependencies; says where it cannot
	@GO=$(GO) tools/vulnerabilities

fuzz: ## Fuzz every fuzz target for FUZZTIME (10s) each
	FUZZTIME=$(FUZZTIME) GO=$(GO) tools/fuzz

fuzz-long: ## Fuzz for HOURS (1, a fraction is allowed), which all fuzz targets share in equal parts
	HOURS=$(or $(HOURS),1) GO=$(GO) tools/fuzz

nemesis: ## Torment hubs for DURATION (10m), with 100,000 subscriptions, 200 readers of streams, and whole chains; it prints its seeds. PAUSE=20ms: publishes of each Source come closer
	@tools/need redis-server
	$(GO) test -count=1 -v -run 'TestLeases$$' ./delivery -args -lease-depth=6
	$(GO) test -count=1 -v -run TestRelayIsKilled ./cmd/rspub -args -relayed=1000
	$(GO) test -count=1 -v -run 'TestReflector$$' ./internal/program/app -args -reflected=5000
	$(GO) test -count=1 -v -timeout 0 -parallel 4 -run 'TestNemesis|TestHubs|TestChain|TestRspub' ./test/e2e -args -nemesis=$(DURATION) -subs=100000 -changes=1000 -rspub-kills=50 -readers=200 $(if $(SEED),-seed=$(SEED)) $(if $(PAUSE),-pause=$(PAUSE))

histories: ## Draw TIMES (20) times as many random histories, schedules and losses as make test; FIRST= is the first seed
	@tools/need redis-server
	RSHUB_HISTORIES_TIMES=$(or $(TIMES),20) RSHUB_HISTORIES_FIRST=$(FIRST) RAPID_CHECKS=$$(($(or $(TIMES),20) * $(CHECKS))) $(GO) test -count=1 -p 1 -timeout 0 -run '$(HISTORIES)' ./cluster ./delivery ./hub ./publisher/source ./store/... ./subscriber/... ./subscriptions

soak: ## Run hubs, Sources, Destinations, callbacks and streams in real time under all kinds of faults for DURATION (10m); it prints its seed, and a report. SEED= repeats a run, PAUSE= is as of nemesis
	@for p in redis-server ip; do tools/need $$p; done
	$(GO) test -count=1 -v -timeout 0 -run 'TestSoak$$' ./test/e2e -args -soak=$(DURATION) $(if $(SEED),-seed=$(SEED)) $(if $(PAUSE),-pause=$(PAUSE))

alerts: ## Cause the trouble of every alert, and see it fire on a Prometheus; RUN=name picks one trial
	@for p in prometheus redis-server; do tools/need $$p; done
	$(GO) test -count=1 -v -timeout 45m -run TestAlertsFire ./test/e2e -args -alerts=$(or $(RUN),all)

sources: ## Follow SOURCES=200 in one process, a tenth of them hanging, gone or lying; it prints lag, memory and descriptors
	$(GO) test -count=1 -v -run TestManySources ./cmd/rssub -args -sources=$(or $(SOURCES),200)

interop: ## Run programs of other makes against ours; RESYNC=, SIMULATOR= name checkouts, UPDATE=1 writes the results
	@for p in nginx caddy haproxy java php; do tools/need $$p; done
	$(GO) test -count=1 -v -timeout 30m -run TestInterop ./test/interop -args -interop $(if $(RESYNC),-resync=$(abspath $(RESYNC))) $(if $(SIMULATOR),-simulator=$(abspath $(SIMULATOR))) $(if $(UPDATE),-update)

page: ## Look at the page of hubs in many states with Chromium; RUN=regexp picks some, UPDATE=1 writes docs/pictures
	@for p in chromium npm redis-server; do tools/need $$p; done
	cd test/page && $(GO) test -count=1 -v -timeout 45m -run '$(or $(RUN),.)' . -args -pictures=$(abspath bin/pictures) $(if $(UPDATE),-update)

image: ## Build the image twice and run its commands as compose.yaml does; needs root. BUILDER= names an image with Go
	@for p in buildah debootstrap redis-server; do tools/need $$p; done
	$(GO) test -count=1 -v -timeout 30m ./test/image -args -image

chart: ## Render the Helm chart with many values, and check it as helm lint and Kubernetes do; UPDATE=1 writes what it renders
	cd test/chart && $(GO) test -count=1 -timeout 15m . $(if $(UPDATE),-args -update)

packages: ## Make deb and rpm of each program in dist/; VERSION=v1.2.3
	GO=$(GO) VERSION=$(VERSION) tools/package dist

packaged: ## Make packages twice, and install, run, upgrade and purge them in a Debian that systemd-nspawn boots; needs root
	@for p in debootstrap lintian rpm systemd-nspawn; do tools/need $$p; done
	$(GO) test -count=1 -v -timeout 60m ./test/packages -args -packages

release: ## Make everything that a release has in dist/, from a clean tree; VERSION=v1.2.3 SIGNING_KEY=file
	@for p in buildah debootstrap; do tools/need $$p; done
	@GO=$(GO) VERSION=$(VERSION) tools/release

kube: $(LINT) ## Install the Helm chart on a real API server of Kubernetes, which is built first (15 minutes) into KUBE; needs root. RUN= picks a part
	@for p in etcd ip kubectl redis-server; do tools/need $$p; done
	cd test/kube && ../../$(LINT) run ./...
	GO=$(GO) tools/kube $(KUBE) $(if $(RUN),-test.run 'TestChart/$(RUN)')

bench: ## Run the benchmarks; BENCH=regexp picks some
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -timeout 30m ./...

measure: ## Run the benchmarks that docs/measurements.md quotes, for 20 minutes at most, and write its table; ONLY=regexp prints some, LONG=1 runs all at full size
	@tools/need redis-server
	$(GO) run ./test/measure $(if $(ONLY),-only '$(ONLY)') $(if $(LONG),-long)

scale: ## Simulate all hubs of 10,000,000 subscriptions, one after the other (docs/scale.md)
	$(GO) test -run '^$$' -bench 'Scale$$' -benchtime 1x -timeout 60m ./delivery

clean: ## Remove what was built
	rm -rf bin dist

# The linters are built from tools/, a module of its own, at the versions it pins.
$(LINT): tools/go.mod tools/go.sum
	$(GO) build -modfile=tools/go.mod -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
