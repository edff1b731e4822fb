#!/bin/sh
# detects.sh BUILD CXX: breaks a copy of muster.hpp's parts in one place at a time, and expects a test of this folder to turn
# red: scripts/mutate breaks C sources only.
set -eu
build=$(cd "$1" && pwd)
cxx=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
missed=0

run() { # run PROGRAM TEST: builds with the headers in $work/include, and runs one test
    "$cxx" -std=c++17 -O0 -DKERNELS="\"$here/../../examples/kernels\"" -I"$work/include" "$here/$1.cpp" -o "$work/program" \
        -L"$build" -lmuster -pthread || exit 2
    LD_LIBRARY_PATH=$build MUSTER_CACHE=$work/cache timeout 20 "$work/program" "$2" >"$work/said" 2>&1
}
broken() { # broken PROGRAM TEST FILE OLD NEW: lines of FILE that hold OLD have NEW instead
    rm -rf "$work/include"
    cp -r "$here/../../include" "$work/include"
    file=$work/include/muster/cpp/$3
    test "$(grep -cF "$4" "$file")" = 1 || { echo "$3 does not have once: $4"; exit 2; }
    if ! run "$1" "$2"; then
        echo "$2 fails with nothing broken"
        cat "$work/said"
        exit 2
    fi
    python3 - "$file" "$4" "$5" <<'END'
import sys
path, old, new = sys.argv[1:]
text = open(path).read().replace(old, new)
open(path, "w").write(text)
END
    if run "$1" "$2"; then
        echo "NOT NOTICED by $2: $3: $4"
        missed=1
    else
        echo "noticed by $2: $3"
    fi
}

broken work an_exception_of_a_sink_is_thrown_by_the_wait callback.hpp 'thrown_ = std::current_exception();' ';'
broken work what_a_task_holds_goes_when_it_has_ended task.hpp 'if (m_ && !has_ended_)' 'if (false)'
broken work stages_that_are_lambdas job.hpp 'return { err, thrown(status) };' 'return err;'
broken values arrays_are_checked_before_a_job_starts args.hpp '(wanted ? has >= items : has == items))' 'true)'
broken values owners_give_back_what_they_have owners.hpp '            release(m, handle_);' ';'
broken values arguments_know_their_items args.hpp 'made.is_here_ = true;' ';'
broken flow a_failure_names_its_task_and_cancels_what_needs_the_data flow.hpp 'if (!graph_ && thrown_)' 'if (false)'
broken flow what_a_graph_throws_is_thrown_by_the_wait_for_its_run task.hpp 'return graph_->keep();' 'return MUSTER_E_FAILED;'
broken flow a_graph_is_run_again_and_with_other_data flow.hpp 'made.to = to;' ';'
broken flow a_stencil_with_parts_and_a_sum owners.hpp 'items[i] = static_cast<reduction_of *>(user)->identity;' ';'
broken flow a_product_in_tiles owners.hpp '+ row * pitch_' ''
exit $missed
