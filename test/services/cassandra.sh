#!/usr/bin/env bash
# A real Cassandra 5.0 without Docker; works as root.
#
#   cassandra.sh start                start the node, wait for CQL, print WATERCLOCK_TEST_CASSANDRA=...
#   cassandra.sh stop | kill9 | restart | pause | cont | status | env | clean     as kafka.sh
#   cassandra.sh prepare | run        what start is made of; run becomes the node
#   cassandra.sh nodetool ARGS...     Cassandra's own tool, on the node
#
# Read by start and prepare, and remembered until clean:
#   CASSANDRA_PORTS="cql storage jmx" default free ones; nodetool needs the third, and nothing else does
#   CASSANDRA_HEAP=1g
#   CASSANDRA_SYNC=periodic           or batch: a write is acknowledged once the disk has it. With periodic, Cassandra's
#                                     default, kill -9 takes what was acknowledged in the last 100 ms or so, and a
#                                     power cut that of 10 s: a cluster has it on other nodes, one node alone has not.
. "$(dirname "$0")/common.sh"
ROOT="$SVC_HOME/cassandra"
SETTINGS="$ROOT/settings"
if [ -f "$SETTINGS" ]; then . "$SETTINGS"; fi
CASSANDRA_PORTS=${CASSANDRA_PORTS:-} CASSANDRA_HEAP=${CASSANDRA_HEAP:-1g}
CASSANDRA_SYNC=${CASSANDRA_SYNC:-periodic}
JARS="$SVC_CACHE/cassandra-$CASSANDRA_VERSION"

main() {
  case ${1:-start} in
    start) prepare; launch; ready; print_env ;;
    prepare) prepare; print_env ;;
    run) run ;;
    restart) launch; ready ;;
    stop) stop_pid "$ROOT/pid" TERM 60; say "cassandra stopped" ;;
    kill9) stop_pid "$ROOT/pid" KILL 10; say "cassandra killed" ;;
    pause) kill -STOP "$(pid_of "$ROOT/pid")" ;;
    cont) kill -CONT "$(pid_of "$ROOT/pid")" ;;
    status) status ;;
    env) print_env ;;
    nodetool) shift; nodetool "$@" ;;
    clean) stop_pid "$ROOT/pid" KILL 10; remove_ours ;;
    *) die "unknown command $1" ;;
  esac
}

prepare() {
  need_java 17 11
  "$HERE/fetch.sh" cassandra > /dev/null
  mkdir -p "$ROOT"/{conf/triggers,data,commitlog,saved_caches,hints,cdc_raw,logs,tmp}
  [ -n "$CASSANDRA_PORTS" ] || CASSANDRA_PORTS=$(free_ports 3)
  for v in CASSANDRA_PORTS CASSANDRA_HEAP CASSANDRA_SYNC; do printf '%s=%q\n' "$v" "${!v}"; done > "$SETTINGS"
  configure
}

port() { echo "$CASSANDRA_PORTS" | cut -sd' ' -f"$1"; }
cql_port() { port 1; }
storage_port() { port 2; }
jmx_port() { port 3; }

configure() {
  cat > "$ROOT/conf/cassandra.yaml" <<Y
cluster_name: waterclock-test
num_tokens: 4
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
dynamic_snitch: false
auto_bootstrap: false
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "127.0.0.1:$(storage_port)"
listen_address: 127.0.0.1
rpc_address: 127.0.0.1
storage_port: $(storage_port)
native_transport_port: $(cql_port)
start_native_transport: true
authenticator: AllowAllAuthenticator
authorizer: AllowAllAuthorizer
role_manager: CassandraRoleManager
data_file_directories: [$ROOT/data]
commitlog_directory: $ROOT/commitlog
saved_caches_directory: $ROOT/saved_caches
hints_directory: $ROOT/hints
cdc_raw_directory: $ROOT/cdc_raw
commitlog_sync: $CASSANDRA_SYNC
$([ "$CASSANDRA_SYNC" = batch ] || echo commitlog_sync_period: 10000ms)
commitlog_segment_size: 16MiB
commitlog_total_space: 256MiB
disk_failure_policy: die
commit_failure_policy: die
auto_snapshot: false
memtable_allocation_type: heap_buffers
memtable_heap_space: 160MiB
memtable_offheap_space: 64MiB
file_cache_size: 64MiB
networking_cache_size: 32MiB
key_cache_size: 16MiB
row_cache_size: 0MiB
concurrent_reads: 8
concurrent_writes: 16
concurrent_counter_writes: 2
concurrent_compactors: 1
compaction_throughput: 64MiB/s
# A cluster with no 4.x in it: TTLs beyond 2038 and the file formats of 5.0.
storage_compatibility_mode: NONE
Y
}

launch() {
  if alive "$(pid_of "$ROOT/pid")"; then say "cassandra runs already"; return 0; fi
  for p in $CASSANDRA_PORTS; do ! port_taken 127.0.0.1 "$p" || die "port $p is taken: set CASSANDRA_PORTS"; done
  setsid nohup "$0" run > /dev/null 2>&1 < /dev/null &
  echo $! > "$ROOT/pid"
}

# run becomes the node: whoever started this script has the node's process.
run() {
  more_files
  export MALLOC_ARENA_MAX=2
  local java=("$JAVA")
  [ "$SVC_JIT" = full ] || java+=(-XX:TieredStopAtLevel=1)
  local jmx; jmx=$(jmx_port)
  # Alone, it need not wait for a ring or for gossip to settle: 20 s less.
  exec "${java[@]}" "@$HERE/conf/cassandra.options" "-Xms$CASSANDRA_HEAP" "-Xmx$CASSANDRA_HEAP" \
    "-javaagent:$(ls "$JARS"/jamm-*.jar)" \
    "-Dcassandra.config=file://$ROOT/conf/cassandra.yaml" "-Dcassandra.storagedir=$ROOT" "-Dcassandra.logdir=$ROOT/logs" \
    "-Dlogback.configurationFile=$HERE/conf/logback.xml" "-Dcassandra.triggers_dir=$ROOT/conf/triggers" \
    -Dcassandra.foreground=yes -Dcassandra.libjemalloc=- -Dcassandra.ring_delay_ms=1000 \
    -Dcassandra.skip_wait_for_gossip_to_settle=0 -Dcassandra.superuser_setup_delay_ms=0 \
    ${jmx:+"-Dcassandra.jmx.local.port=$jmx"} \
    "-Djava.io.tmpdir=$ROOT/tmp" "-Djna.tmpdir=$ROOT/tmp" "-XX:HeapDumpPath=$ROOT/tmp" \
    -cp "$ROOT/conf:$JARS/*" org.apache.cassandra.service.CassandraDaemon > "$ROOT/logs/stdout.log" 2>&1 < /dev/null
}

nodetool() {
  [ -n "$(jmx_port)" ] || die "this node has no third port in CASSANDRA_PORTS: nodetool cannot reach it"
  # shellcheck disable=SC2046 # one word is one option
  "$JAVA" $(grep -- '^--add-' "$HERE/conf/cassandra.options") -XX:TieredStopAtLevel=1 -cp "$ROOT/conf:$JARS/*" \
    "-Dlogback.configurationFile=$HERE/conf/logback.xml" "-Dcassandra.logdir=$ROOT/tmp" "-Duser.home=$ROOT/tmp" \
    org.apache.cassandra.tools.NodeTool -h 127.0.0.1 -p "$(jmx_port)" "$@"
}

ready() { wait_ready cassandra "$ROOT/pid" "$ROOT/logs/stdout.log" 180 probe_cql 127.0.0.1 "$(cql_port)"; }

status() {
  local pid; pid=$(pid_of "$ROOT/pid")
  if ! alive "$pid"; then echo "cassandra is down"; return; fi
  echo "cassandra process $pid $(probe_cql 127.0.0.1 "$(cql_port)" && echo answers || echo silent) $(awk '/VmRSS/ {print int($2/1024) " MiB"}' "/proc/$pid/status")"
}

print_env() { echo "WATERCLOCK_TEST_CASSANDRA=127.0.0.1:$(cql_port)"; }

main "$@"
