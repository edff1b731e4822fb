# The short names. CMakePresets.json holds what each of them builds.
PREFIX ?= /usr/local

all:
	@mkdir -p build
	@cmake --preset release >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
	@cmake --build --preset release

run:
	@scripts/setup
	@$(MAKE) --no-print-directory all
	@scripts/demo

test:
	@scripts/setup
	@scripts/test

lint:
	@scripts/lint

bench:
	@scripts/setup --bench
	@scripts/bench

mutate:
	@scripts/setup
	@scripts/edges
	@scripts/mutate

soak:
	@scripts/setup --soak --deb
	@scripts/soak

deb:
	@scripts/setup --deb
	@scripts/deb

install: all
	@DESTDIR="$(DESTDIR)" cmake --install build --prefix "$(PREFIX)"

help:
	@echo "make           the library, the command (build/muster) and the examples"
	@echo "make run       sets up what is needed, builds, and shows a first result"
	@echo "make test      everything that has to hold, plain and under the sanitizers"
	@echo "make lint      clang-format, clang-tidy, shellcheck"
	@echo "make bench     measurements, with peers and raw limits from the same run"
	@echo "make mutate    breaks the code on purpose and expects the tests to notice"
	@echo "make soak      storms, stress, random mutants, the README in a bare root: some hours"
	@echo "make deb       Debian packages in build/deb, and what lintian says of them"
	@echo "make install   to PREFIX ($(PREFIX)), below DESTDIR if that is set"

.PHONY: all run test lint bench mutate soak deb install help
