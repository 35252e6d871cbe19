#!/usr/bin/env bash
# run.sh [go test arguments] : every test against real services, which it starts
# first and stops after, however the tests end. Without arguments: ./... of each
# module.
case " $* " in *" -bench"[\ =]*) ;; *) export SVC_JIT=${SVC_JIT:-quick} ;; esac # what is measured runs as in production
. "$(dirname "${BASH_SOURCE[0]}")/services/common.sh"
cd "$HERE/../.."

SVC_HOME=$(mktemp -d "${TMPDIR:-/tmp}/waterclock-run-XXXXXX") # ours alone: another run may go on beside us
chmod 755 "$SVC_HOME"                                          # PostgreSQL reads it as another user
export SVC_HOME SVC_CACHE PATH="$SVC_CACHE/bin:$PATH"
export CGO_ENABLED=0                             # as make build does: and so no package is compiled twice
export WATERCLOCK_TEST_BUILT="$SVC_HOME/built"   # programs that several packages start are linked once
background= # the process groups that run beside the front
cleanup() {
  set +e # a step that fails stops neither the next one nor changes the exit code
  for group in $background; do kill -- "-$group" 2>/dev/null; done
  "$HERE/services.sh" down >/dev/null 2>&1
  rm -rf "$SVC_HOME"
}
trap cleanup EXIT

env=$("$HERE/services.sh" up)
eval "$env"
failed=0
# One package after another: on two cores, time-outs under load would be the tests' own doing.
if [ $# -gt 0 ]; then
  go test -p 1 -timeout 40m "$@" || failed=1
  exit $failed
fi

# Three lanes. Most tests of the front wait: for a process, a broker, a time-out. So the other two take what it leaves of
# the cores. "compute" needs nothing else, or has a clock of its own. "quiet" has what waits and needs no exact time; it is
# done before the front gets busy.
compute=(./analytics/... ./calendar/... ./internal/check ./internal/sim ./pipeline/... ./sinks ./sinks/notify/...
  ./statestore ./trigger)
quiet=(./gateway/... ./internal/broker)
foreign=(./test/python ./test/java) # of the lane "quiet", too
run_compute() { # all of it, also if some fails: one run names all that fails
  nice -n 10 go test -p 1 -vet=off -timeout 50m "${compute[@]}"
}
run_quiet() {
  local failed=0
  # Go keeps the result of a package by the files that it opens itself. What Python and Java read it does not see.
  nice -n 10 go test -p 1 -vet=off -timeout 50m -count 1 "${foreign[@]}" || failed=1
  for package in "${quiet[@]}"; do nice -n 10 go test -p 1 -vet=off -timeout 50m "$package" || failed=1; done
  nice -n 10 make check || failed=1 # vets all, so go test need not
  # Go keeps results by the files of the module, and the server, the conformance file and the documents are outside of
  # this one: -count 1 runs its tests anew.
  (cd clients/go && nice -n 10 go test -p 1 -vet=off -count 1 ./...) || failed=1
  nice -n 10 go test -vet=off -tags flaws -run "Flaws|MutedOwner" ./pipeline || failed=1
  return $failed
}
set -m # process groups of their own
run_compute > "$SVC_HOME/compute.log" 2>&1 &
compute_lane=$!
run_quiet > "$SVC_HOME/quiet.log" 2>&1 &
quiet_lane=$!
set +m
background="$compute_lane $quiet_lane"
# Backwards: test/e2e waits longest, and what it leaves is used as long as the other lanes have something to do. And
# test/attack last, when they are done: it judges latency only while nothing else runs, and says nothing of it else.
comm -23 <(go list ./... | sort) <(go list "${compute[@]}" "${quiet[@]}" "${foreign[@]}" ./test/attack | sort) | sort -r |
  xargs go test -p 1 -vet=off -timeout 40m 2>&1 | tee "$SVC_HOME/front.log" || failed=1
wait "$quiet_lane" || failed=1
wait "$compute_lane" || failed=1
go test -p 1 -vet=off -timeout 40m ./test/attack 2>&1 | tee -a "$SVC_HOME/front.log" || failed=1
cat "$SVC_HOME/quiet.log" "$SVC_HOME/compute.log"
# Once more at the end, where a log that was cut still has it: each failed test with its first lines.
[ $failed = 0 ] || awk '
  /^(ok|PASS|[?])/ { lines = 0 }
  /^FAIL/ { lines = 1 }
  /^ *--- FAIL|^panic:|^fatal error:|^# / { lines = 60 }
  lines-- > 0
' "$SVC_HOME/front.log" "$SVC_HOME/quiet.log" "$SVC_HOME/compute.log"
exit $failed
