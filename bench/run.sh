#!/usr/bin/env bash
# run.sh [embedded] [kafka] [nats] : the scenarios of bench/README.md; results/<date>-<broker>-<scenario>.json
# BASE=PROGRAM PAIRS=7 run.sh pairs [kafka] : this commit and another one by turns; results/<date>-pairs-<broker>.txt
# With THIS="--set store.wal=false" this commit runs so, and BASE may be the same commit.
# Nothing else may run beside it: it refuses to measure while other work uses more than a tenth of the machine.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- embedded kafka nats
bin=$(mktemp -d)/waterclock
CGO_ENABLED=0 go build -buildvcs=true -o "$bin" ./cmd/waterclock # as make build does: Pebble's memory lies elsewhere with cgo
day=$(date -u +%Y-%m-%d)

busy() { # seconds: how many hundredths of the machine are in use
  local a b
  a=$(grep '^cpu ' /proc/stat); sleep "$1"; b=$(grep '^cpu ' /proc/stat)
  printf '%s\n%s\n' "$a" "$b" | awk '{ n = 0; for (i = 2; i <= 9; i++) n += $i; idle = $5 + $6
    if (NR == 1) { n0 = n; i0 = idle } else { printf "%d\n", 100 - 100 * (idle - i0) / (n - n0) } }'
}
quiet() { # waits up to a minute for the machine to be quiet, else ends the run
  local used try
  for try in 1 2 3 4 5 6; do
    used=$(busy 3)
    [ "$used" -gt 10 ] || return 0
    echo "other work uses $used % of this machine; waiting" >&2
    sleep 7
  done
  echo "other work uses more than a tenth of this machine: nothing is measured. What uses the most:" >&2
  ps -eo pcpu,pid,args --sort=-pcpu | head -6 | cut -c1-120 >&2
  exit 1
}
scenario() { # broker name arguments...
  local broker=$1 name=$2 out; shift 2
  quiet
  out=bench/results/$day-$broker-$name.json
  echo "$broker $name: $*" >&2
  case $broker in
    nats) "$bin" "$@" ;;
    kafka) "$bin" bench --json --broker-pid "$broker_pid" "$@" ;;
    *) "$bin" bench --json "$@" ;;
  esac | tee "$out" >&2
}
http() { # broker arguments... : the HTTP API of a server in another process; STEADY=10m looks at its memory too
  local broker=$1 out; shift
  quiet
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
start_kafka() { # sets brokers and broker_pid
  SVC_HOME=$(mktemp -d); export SVC_HOME
  trap 'test/services/kafka.sh clean >/dev/null 2>&1; rm -rf "$SVC_HOME"' EXIT
  brokers=$(test/services/kafka.sh start | sed -n 's/^WATERCLOCK_TEST_KAFKA=//p')
  broker_pid=$(cat "$SVC_HOME"/kafka/node-1/pid)
}
pairs() { # broker arguments... : medians of both programs, and of the ratios of their pairs
  local broker=$1 out i which program; shift
  [ -x "${BASE:-}" ] || { echo "set BASE to the program to compare with: go build -o FILE ./cmd/waterclock" >&2; exit 2; }
  out=bench/results/$day-pairs-$broker.txt
  local runs; runs=$(mktemp -d)
  quiet; "$bin" bench "$@" --triggers 200000 --window 0s >/dev/null # a cold broker is slower
  for i in $(seq "${PAIRS:-7}"); do
    for which in $([ $((i % 2)) = 0 ] && echo base this || echo this base); do
      program=$bin more=${THIS:-}; [ $which = this ] || program=$BASE more=
      # shellcheck disable=SC2086 # more is words
      quiet; "$program" bench --json "$@" $more --triggers 200000 --window 0s >"$runs/backlog.$which.$i.json"
      # shellcheck disable=SC2086
      quiet; "$program" bench --json "$@" $more --triggers 300000 --rate 20000 >"$runs/sustained.$which.$i.json"
      echo "pair $i of ${PAIRS:-7}: $which is done" >&2
    done
  done
  bench/pairs.py "$runs" | tee "$out" >&2
}
rival() { # the same flags, another program
  bin=$(mktemp -d)/nats
  (cd bench/nats && go build -o "$bin" .)
  scenario nats herd-200k -triggers 200000 -window 0s
  scenario nats herd-200k-unsynced -triggers 200000 -window 0s -sync=false
  scenario nats window-200k-10s -triggers 200000 -window 10s
  scenario nats window-200k-10s-unsynced -triggers 200000 -window 10s -sync=false
}
for broker; do
  case $broker in
    embedded)
      all embedded
      scenario embedded sustained-50k --triggers 500000 --rate 50000 ;;
    kafka)
      start_kafka
      "$bin" bench --brokers "$brokers" --triggers 200000 --window 0s >/dev/null # a cold broker is slower
      all kafka --brokers "$brokers"
      partitions --brokers "$brokers" ;;
    nats) rival ;;
    pairs) # what follows is the broker
      [ "${2:-embedded}" = embedded ] || { start_kafka; pairs kafka --brokers "$brokers" --broker-pid "$broker_pid"; break; }
      pairs embedded; break ;;
    *) echo "which broker: embedded, kafka, nats; or pairs" >&2; exit 2 ;;
  esac
done
