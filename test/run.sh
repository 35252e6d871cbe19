#!/usr/bin/env bash
# run.sh [go test arguments] : every test against real services, which it starts
# first and stops after, however the tests end. Without arguments: ./... of each
# module.
. "$(dirname "${BASH_SOURCE[0]}")/services/common.sh"
cd "$HERE/../.."

SVC_HOME=$(mktemp -d "${TMPDIR:-/tmp}/waterclock-run-XXXXXX") # ours alone: another run may go on beside us
chmod 755 "$SVC_HOME"                                          # PostgreSQL reads it as another user
export SVC_HOME SVC_CACHE PATH="$SVC_CACHE/bin:$PATH"
trap '"$HERE/services.sh" down >/dev/null 2>&1; rm -rf "$SVC_HOME"' EXIT

env=$("$HERE/services.sh" up)
eval "$env"
failed=0
if [ $# -eq 0 ]; then # clients/go needs no services
  (cd clients/go && go test -p 1 ./...) || failed=1 # and go on: one run names all that fails
  set -- ./...
fi
# One package after another: on two cores, time-outs under load would be the tests' own doing.
go test -p 1 -timeout 40m "$@" || failed=1
exit $failed
