#!/usr/bin/env bash
# run.sh [go test arguments] : every test against real services, which it starts
# first and stops after, however the tests end. Without arguments: ./... of each
# module.
. "$(dirname "${BASH_SOURCE[0]}")/services/common.sh"
cd "$HERE/../.."

SVC_HOME=$(mktemp -d "${TMPDIR:-/tmp}/waterclock-run-XXXXXX") # ours alone: another run may go on beside us
chmod 755 "$SVC_HOME"                                          # PostgreSQL reads it as another user
export SVC_HOME SVC_CACHE PATH="$SVC_CACHE/bin:$PATH"
export CGO_ENABLED=0                             # as make build does: and so no package is compiled twice
export WATERCLOCK_TEST_BUILT="$SVC_HOME/built"   # programs that several packages start are linked once
background= # the process group that runs beside the others
cleanup() {
  set +e # a step that fails stops neither the next one nor changes the exit code
  [ -z "$background" ] || kill -- "-$background" 2>/dev/null
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

# Most tests of the others wait: for a process, a broker, a time-out. So these, which compute and
# have a clock of their own or need no exact one, take what the others leave of the cores.
behind=(./analytics/... ./calendar/... ./gateway/... ./internal/broker ./internal/check ./internal/sim ./pipeline/... ./sinks
  ./sinks/notify/... ./statestore ./test/java ./test/python ./trigger)
run_behind() { # all of it, also if some fails: one run names all that fails
  local failed=0
  nice -n 10 make check || failed=1 # vets all, so go test need not
  nice -n 10 go test -p 1 -vet=off -timeout 50m "${behind[@]}" || failed=1
  # Go keeps results by the files of the module, and the server, the conformance file and the documents are outside of
  # this one: -count 1 runs its tests anew.
  (cd clients/go && nice -n 10 go test -p 1 -vet=off -count 1 ./...) || failed=1
  nice -n 10 go test -vet=off -tags flaws -run "Flaws|MutedOwner" ./pipeline || failed=1
  return $failed
}
set -m # a process group of its own
run_behind > "$SVC_HOME/behind.log" 2>&1 &
background=$!
set +m
comm -23 <(go list ./... | sort) <(go list "${behind[@]}" | sort) |
  xargs go test -p 1 -vet=off -timeout 40m 2>&1 | tee "$SVC_HOME/front.log" || failed=1
wait "$background" || failed=1
cat "$SVC_HOME/behind.log"
# Once more at the end, where a log that was cut still has it: each failed test with its first lines.
[ $failed = 0 ] || awk '
  /^(ok|PASS|[?])/ { lines = 0 }
  /^FAIL/ { lines = 1 }
  /^ *--- FAIL|^panic:|^fatal error:|^# / { lines = 60 }
  lines-- > 0
' "$SVC_HOME/front.log" "$SVC_HOME/behind.log"
exit $failed
