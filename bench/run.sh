#!/usr/bin/env bash
# run.sh [embedded] [kafka] [nats] : the scenarios of bench/README.md; results/<date>-<broker>-<scenario>.json
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- embedded kafka nats
bin=$(mktemp -d)/waterclock
CGO_ENABLED=0 go build -buildvcs=true -o "$bin" ./cmd/waterclock # as make build does: Pebble's memory lies elsewhere with cgo
day=$(date -u +%Y-%m-%d)

scenario() { # broker name arguments...
  local broker=$1 name=$2 out; shift 2
  out=bench/results/$day-$broker-$name.json
  echo "$broker $name: $*" >&2
  case $broker in
    nats) "$bin" "$@" ;;
    *) "$bin" bench --json "$@" ;;
  esac | tee "$out" >&2
}
http() { # broker arguments... : the HTTP API of a server in another process; STEADY=10m looks at its memory too
  local broker=$1 out; shift
  out=bench/results/$day-$broker-http.json
  echo "$broker http: waterclock bench http $*" >&2
  "$bin" bench http --json --pending 1000000 --steady "${STEADY:-0s}" "$@" | tee "$out" >&2
}
all() { # broker arguments...
  local broker=$1; shift
  scenario "$broker" herd-200k "$@" --triggers 200000 --window 0s
  scenario "$broker" window-200k-10s "$@" --triggers 200000 --window 10s
  scenario "$broker" sustained-5k "$@" --triggers 75000 --rate 5000
  scenario "$broker" sustained-20k "$@" --triggers 300000 --rate 20000
  scenario "$broker" herd-1m "$@" --triggers 1000000 --window 0s
  http "$broker" "$@"
}
partitions() { # of Kafka: how lateness grows with transactions per second
  local n
  for n in 16 64; do
    scenario kafka "sustained-20k-p$n" "$@" --set topics.partitions=$n --triggers 300000 --rate 20000
    scenario kafka "herd-200k-p$n" "$@" --set topics.partitions=$n --triggers 200000 --window 0s
  done
}
rival() { # the same flags, another program
  bin=$(mktemp -d)/nats
  (cd bench/nats && go build -o "$bin" .)
  scenario nats herd-200k -triggers 200000 -window 0s
  scenario nats window-200k-10s -triggers 200000 -window 10s
  scenario nats window-200k-10s-unsynced -triggers 200000 -window 10s -sync=false
}
for broker; do
  case $broker in
    embedded)
      all embedded
      scenario embedded sustained-50k --triggers 500000 --rate 50000 ;;
    kafka)
      SVC_HOME=$(mktemp -d); export SVC_HOME
      trap 'test/services/kafka.sh clean >/dev/null 2>&1; rm -rf "$SVC_HOME"' EXIT
      brokers=$(test/services/kafka.sh start | sed -n 's/^WATERCLOCK_TEST_KAFKA=//p')
      all kafka --brokers "$brokers"
      partitions --brokers "$brokers" ;;
    nats) rival ;;
    *) echo "which broker: embedded, kafka, nats" >&2; exit 2 ;;
  esac
done
