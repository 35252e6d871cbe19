#!/usr/bin/env bash
# workers.sh [go] [python] [java] : how fast a worker of each kit is on a real Kafka broker, which is started for it. A
# handler that does nothing, with receipts, from a filled topic of 4 partitions. EVENTS=200000 for python and java.
. "$(dirname "${BASH_SOURCE[0]}")/../test/services/common.sh"
cd "$HERE/../.."
[ $# -gt 0 ] || set -- go python java

own=$(mktemp -d "${TMPDIR:-/tmp}/waterclock-bench-XXXXXX")
export SVC_HOME=$own/services SVC_CACHE
mkdir -p "$SVC_HOME"
trap '"$HERE/kafka.sh" clean > /dev/null 2>&1; rm -rf "$own"' EXIT
eval "$("$HERE/kafka.sh" start)"
export WATERCLOCK_TEST_KAFKA

bench_go() { (cd clients/go && go test -run '^$' -bench BenchmarkRun/keys=200000 -benchtime 3x ./worker); }

bench_python() {
  PYTHONPATH=clients/python/src PYTHONDONTWRITEBYTECODE=1 "$SVC_CACHE/venv/bin/python" clients/python/bench.py \
    "$WATERCLOCK_TEST_KAFKA" "${EVENTS:-200000}"
}

bench_java() {
  local repo="$SVC_CACHE/maven" cp
  mvn -B -ntp -q -o -f clients/java/pom.xml "-Dmaven.repo.local=$repo" "-Dbuild.dir=$own/java" test-compile
  cp=$own/java/classes:$own/java/test-classes:$(find "$repo" -name '*.jar' \( -path '*/kafka-clients/*' \
    -o -path '*/gson/*' -o -path '*/slf4j-api/1.*' -o -path '*lz4*' -o -path '*snappy*' -o -path '*zstd*' \) | tr '\n' ':')
  java -cp "$cp" dev.waterclock.worker.Bench "$WATERCLOCK_TEST_KAFKA" "${EVENTS:-200000}"
}

for kit; do
  say "$kit, on real Kafka"
  "bench_$kit"
done
