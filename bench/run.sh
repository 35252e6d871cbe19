#!/usr/bin/env bash
# run.sh [embedded] [kafka] : the scenarios of bench/README.md; results/<date>-<broker>-<scenario>.json
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- embedded kafka
bin=$(mktemp -d)/waterclock
go build -buildvcs=true -o "$bin" ./cmd/waterclock
day=$(date -u +%Y-%m-%d)

scenario() { # broker name arguments...
  local broker=$1 name=$2 out; shift 2
  out=bench/results/$day-$broker-$name.json
  echo "$broker $name: waterclock bench $*" >&2
  "$bin" bench --json "$@" | tee "$out" >&2
}
all() { # broker arguments...
  local broker=$1; shift
  scenario "$broker" herd-200k "$@" --triggers 200000 --window 0s
  scenario "$broker" window-200k-10s "$@" --triggers 200000 --window 10s
  scenario "$broker" sustained-5k "$@" --triggers 75000 --rate 5000
  scenario "$broker" sustained-20k "$@" --triggers 300000 --rate 20000
  scenario "$broker" herd-1m "$@" --triggers 1000000 --window 0s
}
for broker; do
  case $broker in
    embedded) all embedded ;;
    kafka)
      SVC_HOME=$(mktemp -d); export SVC_HOME
      trap 'test/services/kafka.sh clean >/dev/null 2>&1; rm -rf "$SVC_HOME"' EXIT
      brokers=$(test/services/kafka.sh start | sed -n 's/^WATERCLOCK_TEST_KAFKA=//p')
      all kafka --brokers "$brokers" ;;
    *) echo "which broker: embedded, kafka" >&2; exit 2 ;;
  esac
done
