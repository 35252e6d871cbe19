#!/usr/bin/env bash
# nights.sh [rolled] [overload] : three nodes rolled under 300 and 2,000 triggers a second, and an hour at overload, on
# a Kafka of one broker; results/<date>-kafka-rolling-restart-*.json and results/<date>-kafka-overload.json.
# FOR=60s shortens the hour, DELAY=1m is how long what floods waits (10m), ONLY=standby_0_at_300 runs one of the four
# ways to roll, OUT=DIR writes elsewhere. Run it on a machine that does nothing else: nobody else's load is subtracted.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- rolled overload
out=$PWD/bench/results
SVC_HOME=$(mktemp -d); export SVC_HOME
trap 'test/services/kafka.sh clean >/dev/null 2>&1; rm -rf "$SVC_HOME"' EXIT
brokers=$(test/services/kafka.sh start | sed -n 's/^WATERCLOCK_TEST_KAFKA=//p')
measure() { # test : one soak test of test/e2e that leaves its figures in bench/results
  WATERCLOCK_TEST_KAFKA=$brokers WATERCLOCK_TEST_SOAK=${FOR:-1h} WATERCLOCK_BENCH_FOR=${FOR:-1h} \
    WATERCLOCK_BENCH_DELAY=${DELAY:-10m} WATERCLOCK_BENCH_OUT=${OUT:-$out} go test -tags soak -timeout 3h -count 1 -v \
    -run "^$1\$${ONLY:+/^$ONLY\$}" ./test/e2e
}
for night; do
  case $night in
    rolled) measure TestMeasureRollingRestart ;;
    overload) measure TestMeasureOverload ;;
    *) echo "which night: rolled, overload" >&2; exit 2 ;;
  esac
done
