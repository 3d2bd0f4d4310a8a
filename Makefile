# The newcomer's front door. Every target installs what is missing, builds and runs; nothing else is needed.
SHELL := /bin/bash
JOBS ?= $(shell nproc)
BUILD = cmake --build --preset

.PHONY: help demo build test asan test-gpu test-python bench fuzz format lint clean
.DEFAULT_GOAL := help

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' Makefile

build: ## build the executable build/siamese
	@scripts/setup build
	@[ -f build/build.ninja ] || cmake --preset release -DSIAMESE_TESTS=OFF
	@$(BUILD) release -j $(JOBS) --target siamese

demo: build ## train four schemes on a bundled corpus and write demo/report.html
	@build/siamese compare recipes/demo.yaml --schemes pre,post,hybrid,siamese_hybrid --out demo --overwrite

test: ## build and run all tests on the CPU
	@scripts/setup test
	@cmake --preset release -DSIAMESE_TESTS=ON >/dev/null
	@$(BUILD) release -j $(JOBS)
	@cd build && ctest --output-on-failure

asan: ## the same tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@scripts/setup test
	@cmake --preset asan >/dev/null
	@$(BUILD) asan -j $(JOBS)
	@scripts/run-asan

test-gpu: ## the tests that need an NVIDIA GPU, then its operators under compute-sanitizer
	@scripts/setup test
	@cmake --preset release -DSIAMESE_TESTS=ON >/dev/null
	@$(BUILD) release -j $(JOBS)
	@scripts/test-gpu

test-python: build ## the operators from Python: opcheck, gradients, a training run (without a GPU by the LibTorch of the build)
	@scripts/test-python

bench: ## time the training step against PyTorch and each operator (fetches PyTorch into .venv-bench)
	@scripts/setup bench
	@cmake --preset release -DSIAMESE_BENCH=ON >/dev/null
	@$(BUILD) release -j $(JOBS) --target siamese ops_bench
	@bench/run

FUZZ_SECONDS ?= 600
fuzz: ## fuzz the readers of safetensors, recipes, pictures, IDX and CIFAR-10 files, FUZZ_SECONDS each (600)
	@scripts/setup fuzz
	@scripts/fuzz $(FUZZ_SECONDS)

format: ## clang-format everything
	@scripts/setup format
	@git ls-files -z '*.cpp' '*.h' '*.cu' | xargs -0 clang-format -i

lint: ## clang-tidy on the code that needs no LibTorch, and format check
	@scripts/setup test
	@scripts/setup lint
	@scripts/setup format
	@git ls-files -z '*.cpp' '*.h' '*.cu' | xargs -0 clang-format --dry-run -Werror
	@[ -f build/compile_commands.json ] || cmake --preset release >/dev/null
	@clang-tidy --quiet --extra-arg=-Wno-unknown-warning-option -p build $$(git ls-files 'src/util/*.cpp' 'src/io/*.cpp' 'src/recipe/*.cpp' 'src/data/*.cpp' 'src/report/*.cpp')

clean: ## remove build folders (not .venv)
	@rm -rf build build-asan build-debug build-fuzz
