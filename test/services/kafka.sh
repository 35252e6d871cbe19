#!/usr/bin/env bash
# A real Kafka (KRaft, every node broker and controller) without Docker.
#
#   kafka.sh start                start the nodes, wait until they answer, print WATERCLOCK_TEST_KAFKA=...
#   kafka.sh stop [n] | kill9 [n] SIGTERM (controlled shutdown) or SIGKILL, one node or all
#   kafka.sh restart n            start a stopped or killed node again
#   kafka.sh pause n | cont n     SIGSTOP, SIGCONT: a frozen machine
#   kafka.sh isolate n | rejoin n         NETNS=1: node n loses or regains everybody
#   kafka.sh cut a b | mend a b           NETNS=1: a and b lose each other, clients see both
#   kafka.sh mute a b | unmute a b        NETNS=1: what a sends does not reach b; the other way it does
#   kafka.sh version n v          what node n is from its next start on
#   kafka.sh guest n              NETNS=1: a namespace n (11 to 99) for somebody else; prints NETNS_NAME and NETNS_ADDR
#   kafka.sh status | env | clean         clean also removes the data
#   kafka.sh classes              keep the classes that a node loads, parsed, beside its jars: a node starts in half the time
#   kafka.sh prepare | run n      what start is made of; run stays in the foreground and becomes the node
#
# Read by start and prepare, and remembered until clean:
#   NODES=1|3              replication factor and min ISR follow
#   KAFKA_PORTS="p ..."    a port per node, p+1 its controller, p+2 its SASL_SSL listener; default free ones
#   KAFKA_HEAP=768m
#   NETNS=1                each node in a network namespace (root): 10.77.k.11 to .13, guest n at .1n
#   KAFKA_DISK=512m        each node's data on a file system of this size (root)
#   SECURE=1               adds a SASL_SSL listener (SCRAM-SHA-512) and ACLs; users admin, engine, intruder,
#                          password <user>-secret. The PLAINTEXT listener stays, a super user for the tests.
#   KAFKA_EXTRA="k=v;k=v"  more of server.properties
. "$(dirname "$0")/common.sh"
ROOT="$SVC_HOME/kafka"
SETTINGS="$ROOT/settings"
if [ -f "$SETTINGS" ]; then . "$SETTINGS"; fi
NODES=${NODES:-1} KAFKA_PORTS=${KAFKA_PORTS:-} KAFKA_HEAP=${KAFKA_HEAP:-768m}
NETNS=${NETNS:-0} SECURE=${SECURE:-0} KAFKA_EXTRA=${KAFKA_EXTRA:-} KAFKA_DISK=${KAFKA_DISK:-} NET=${NET:-}

main() {
  local command=${1:-start}; [ $# -eq 0 ] || shift
  case $command in
    start) prepare; for i in $(nodes); do launch "$i"; done; for i in $(nodes); do ready "$i"; done; print_env ;;
    prepare) prepare; print_env ;;
    run) run "$1" ;;
    restart) launch "$1"; ready "$1" ;;
    stop) for i in $(nodes "$@"); do stop_pid "$(dir "$i")/pid" TERM 40; say "kafka-$i stopped"; done ;;
    kill9) for i in $(nodes "$@"); do stop_pid "$(dir "$i")/pid" KILL 10; say "kafka-$i killed"; done ;;
    pause) kill -STOP "$(pid_of "$(dir "$1")/pid")" ;;
    cont) kill -CONT "$(pid_of "$(dir "$1")/pid")" ;;
    isolate) need_netns; ip link set "$(veth "$1")" down ;;
    rejoin) need_netns; ip link set "$(veth "$1")" up ;;
    cut) need_netns; mute "$1" "$2"; mute "$2" "$1" ;;
    mend) need_netns; unmute "$1" "$2"; unmute "$2" "$1" ;;
    mute) need_netns; mute "$1" "$2" ;;
    unmute) need_netns; unmute "$1" "$2" ;;
    guest) need_netns; namespace "$1"; echo "NETNS_NAME=$(netns "$1")"; echo "NETNS_ADDR=$(host "$1")" ;;
    version) version "$1" "$2" ;;
    status) for i in $(nodes); do status "$i"; done ;;
    env) print_env ;;
    classes) classes ;;
    clean) for i in $(nodes); do stop_pid "$(dir "$i")/pid" KILL 10; done; net_down; disks_down; remove_ours ;;
    *) die "unknown command $command" ;;
  esac
}

# --- a cluster -----------------------------------------------------------------

prepare() {
  need_java 17 up
  "$HERE/fetch.sh" kafka > /dev/null
  mkdir -p "$ROOT"
  [ -n "$KAFKA_PORTS" ] || KAFKA_PORTS=$(free_ports "$NODES")
  [ "$NETNS" = 0 ] || [ -n "$NET" ] || net_number
  for v in NODES KAFKA_PORTS KAFKA_HEAP NETNS SECURE KAFKA_EXTRA KAFKA_DISK NET; do printf '%s=%q\n' "$v" "${!v}"; done > "$SETTINGS"
  net_up
  certificates
  for i in $(nodes); do configure "$i"; format "$i" & done
  local failed=0 job; for job in $(jobs -p); do wait "$job" || failed=1; done
  [ $failed = 0 ] || die "a node could not be formatted"
}

launch() {
  local d; d=$(dir "$1")
  if alive "$(pid_of "$d/pid")"; then say "kafka-$1 runs already"; return 0; fi
  ! port_taken "$(host "$1")" "$(port "$1")" "$(netns "$1")" || die "$(host "$1"):$(port "$1") is taken: set KAFKA_PORTS"
  setsid nohup "$0" run "$1" > /dev/null 2>&1 < /dev/null &
  echo $! > "$d/pid"
}

# run becomes the node: whoever started this script has the node's process.
run() {
  local d prefix=(); d=$(dir "$1")
  [ "$NETNS" = 0 ] || prefix=(ip netns exec "$(netns "$1")")
  more_files
  # A log per life: readiness is read from it, and the last life's is kept for the post-mortem.
  [ ! -s "$d/logs/server.log" ] || mv "$d/logs/server.log" "$d/logs/server.$(date +%H%M%S.%N).log"
  # Remembered for each node: a cluster may be upgraded one node after another.
  local jars="$SVC_CACHE/kafka-$(cat "$d/version")"
  local java=("$JAVA")
  [ "$SVC_JIT" = full ] || java+=(-XX:TieredStopAtLevel=1)
  if [ -n "${ARCHIVE:-}" ]; then java+=("-XX:ArchiveClassesAtExit=$ARCHIVE"); fi
  archived "$jars"
  exec "${prefix[@]}" "${java[@]}" "${ARCHIVED[@]}" "-Xms256m" "-Xmx$KAFKA_HEAP" -XX:+UseG1GC -XX:MaxGCPauseMillis=20 \
    -XX:InitiatingHeapOccupancyPercent=35 -XX:+ExplicitGCInvokesConcurrent -XX:+ExitOnOutOfMemoryError \
    -Djava.awt.headless=true "-Djava.io.tmpdir=$d/tmp" "${LOGGING[@]}" "-Dkafka.logs.dir=$d/logs" \
    -cp "$jars/*" kafka.Kafka "$d/server.properties" > "$d/logs/stdout.log" 2>&1 < /dev/null
}

# archived DIR : ARCHIVED is the option of java that uses the archive of the classes of these jars, if there is one.
archived() { ARCHIVED=(); if [ -f "$1.jsa" ]; then ARCHIVED=("-XX:SharedArchiveFile=$1.jsa"); fi; }

# classes makes the archive (JEP 350). Java ignores one of another Java or of other jars.
classes() {
  local archive="$JARS.jsa" home
  [ ! -f "$archive" ] || return 0
  home=$(mktemp -d "${TMPDIR:-/tmp}/waterclock-classes-XXXXXX")
  # In an environment of its own: these are not the settings of whoever asks.
  if (export SVC_HOME="$home" ARCHIVE="$archive.$$" NODES=1 KAFKA_PORTS= NETNS=0 SECURE=0 KAFKA_EXTRA= KAFKA_DISK= NET=
    "$0" start > /dev/null && "$0" stop && mv "$ARCHIVE" "$archive"); then
    say "kafka $KAFKA_VERSION: $(du -sh "$archive" | cut -f1) of classes"
  else
    say "kafka $KAFKA_VERSION: no archive of classes, so nodes start more slowly"
  fi
  SVC_HOME="$home" "$0" clean > /dev/null 2>&1 || true
  rm -rf "$home" "$archive.$$"
}

version() {
  KAFKA_VERSION=$2 "$HERE/fetch.sh" kafka > /dev/null
  echo "$2" > "$(dir "$1")/version"
}

ready() { wait_ready "kafka-$1" "$(dir "$1")/pid" "$(dir "$1")/logs/stdout.log" 90 answers "$1"; }
answers() {
  grep -qs 'Kafka Server started' "$(dir "$1")/logs/server.log" && probe_kafka "$(host "$1")" "$(port "$1")" "$(netns "$1")"
}

status() {
  local pid; pid=$(pid_of "$(dir "$1")/pid")
  if ! alive "$pid"; then echo "kafka-$1 is down"; return; fi
  echo "kafka-$1 process $pid $(answers "$1" && echo answers || echo silent) $(awk '/VmRSS/ {print int($2/1024) " MiB"}' "/proc/$pid/status")"
}

print_env() {
  echo "WATERCLOCK_TEST_KAFKA=$(for i in $(nodes); do echo "$(host "$i"):$(port "$i")"; done | paste -sd,)"
  [ "$SECURE" = 0 ] || echo "WATERCLOCK_TEST_KAFKA_SASL_SSL=$(for i in $(nodes); do echo "$(host "$i"):$(($(port "$i") + 2))"; done | paste -sd,)"
  [ "$SECURE" = 0 ] || echo "WATERCLOCK_TEST_KAFKA_CA=$ROOT/tls/ca.pem"
}

# --- a node ----------------------------------------------------------------------

JARS="$SVC_CACHE/kafka-$KAFKA_VERSION"
LOGGING=("-Dlog4j2.configurationFile=$HERE/conf/kafka-log4j2.properties")

nodes() { if [ $# -gt 0 ]; then echo "$1"; else seq 1 "$NODES"; fi; }
dir() { echo "$ROOT/node-$1"; }
host() { if [ "$NETNS" = 1 ]; then echo "10.77.$NET.1$1"; else echo 127.0.0.1; fi; }
port() { echo "$KAFKA_PORTS" | cut -d' ' -f"$1"; }
netns() { if [ "$NETNS" = 1 ]; then echo "wc$NET-$1"; fi; }
veth() { echo "wcv$NET-$1"; }

configure() {
  local d h p replicas=$NODES min=1 secure=; d=$(dir "$1") h=$(host "$1") p=$(port "$1")
  [ "$NODES" -lt 3 ] || min=2
  [ "$SECURE" = 0 ] || secure=",SASL_SSL://$h:$((p + 2))"
  mkdir -p "$d/data" "$d/logs" "$d/tmp"
  disk_up "$d/data"
  echo "$KAFKA_VERSION" > "$d/version"
  {
    cat <<P
process.roles=broker,controller
node.id=$1
# Static voters: every node is then formatted by the same command.
controller.quorum.voters=$(for i in $(nodes); do echo "$i@$(host "$i"):$(($(port "$i") + 1))"; done | paste -sd,)
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://$h:$p,CONTROLLER://$h:$((p + 1))$secure
advertised.listeners=PLAINTEXT://$h:$p$secure
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL
log.dirs=$d/data
num.partitions=4
default.replication.factor=$replicas
min.insync.replicas=$min
auto.create.topics.enable=false
unclean.leader.election.enable=false
# The internal topics too, or one node accepts connections and every group and transaction hangs.
offsets.topic.replication.factor=$replicas
offsets.topic.num.partitions=6
transaction.state.log.replication.factor=$replicas
transaction.state.log.min.isr=$min
transaction.state.log.num.partitions=6
share.coordinator.state.topic.replication.factor=$replicas
share.coordinator.state.topic.min.isr=$min
share.coordinator.state.topic.num.partitions=3
# What operators of Waterclock are told to set: docker-compose.yml has the same. Its .max.ms
# stays: it bounds the broker's retrying, and where that ends clients back off for 250 ms and more.
add.partitions.to.txn.retry.backoff.ms=1
# Time-outs that tests wait for are short: of transactions, nodes and replicas.
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
transaction.max.timeout.ms=900000
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=6000
broker.heartbeat.interval.ms=1000
replica.lag.time.max.ms=6000
log.retention.check.interval.ms=5000
log.cleaner.backoff.ms=1000
# Small: the cleaner's buffer is 128 MiB of heap by default, each index 10 MiB of disk.
log.cleaner.dedupe.buffer.size=33554432
log.cleaner.threads=1
log.segment.bytes=67108864
log.index.size.max.bytes=1048576
num.network.threads=2
num.io.threads=4
num.replica.fetchers=1
P
    [ "$SECURE" = 0 ] || cat <<P
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
ssl.keystore.type=PEM
ssl.keystore.location=$ROOT/tls/node-$1.pem
ssl.truststore.type=PEM
ssl.truststore.location=$ROOT/tls/ca.pem
ssl.client.auth=none
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
# ANONYMOUS is everybody on the PLAINTEXT listener: the nodes, and tests that set the scene.
super.users=User:ANONYMOUS;User:admin
allow.everyone.if.no.acl.found=false
P
    echo "$KAFKA_EXTRA" | tr ';' '\n'
  } > "$d/server.properties"
}

# format makes the data directory, and the first SCRAM users: later it would take a client that is one.
format() {
  local d users=(); d=$(dir "$1")
  [ ! -f "$d/data/meta.properties" ] || return 0
  if [ "$SECURE" = 1 ]; then
    for u in admin engine intruder; do users+=(--add-scram "SCRAM-SHA-512=[name=$u,password=$u-secret]"); done
  fi
  archived "$JARS"
  "$JAVA" -Xmx256m -XX:TieredStopAtLevel=1 "${ARCHIVED[@]}" "${LOGGING[@]}" "-Dkafka.logs.dir=$d/logs" -cp "$JARS/*" kafka.tools.StorageTool \
    format --cluster-id V2F0ZXJjbG9ja1Rlc3QwMA --config "$d/server.properties" --ignore-formatted "${users[@]}" \
    > "$d/logs/format.log" 2>&1 || { cat "$d/logs/format.log" >&2; return 1; }
}

# certificates makes an authority and a PEM key store (PKCS #8 key, then the chain) per node.
certificates() {
  local t="$ROOT/tls"
  if [ "$SECURE" = 0 ] || [ -f "$t/ca.pem" ]; then return 0; fi
  command -v openssl >/dev/null || die "no openssl: type  apt-get install -y openssl"
  mkdir -p "$t"
  openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=waterclock-test -keyout "$t/ca.key" -out "$t/ca.pem" 2>/dev/null
  for i in $(nodes); do
    openssl req -newkey rsa:2048 -nodes -subj "/CN=kafka-$i" -keyout "$t/$i.key" -out "$t/$i.csr" 2>/dev/null
    openssl x509 -req -in "$t/$i.csr" -CA "$t/ca.pem" -CAkey "$t/ca.key" -CAcreateserial -days 30 \
      -extfile <(echo "subjectAltName=IP:$(host "$i"),DNS:localhost") -out "$t/$i.crt" 2>/dev/null
    { openssl pkcs8 -topk8 -nocrypt -in "$t/$i.key"; cat "$t/$i.crt" "$t/ca.pem"; } > "$t/node-$i.pem"
  done
}

# --- network namespaces ------------------------------------------------------------

need_netns() { [ "$NETNS" = 1 ] || die "only where the cluster was started with NETNS=1"; }

# net_number takes the first free bridge, and with it its addresses: clusters do not meet.
net_number() {
  [ "$(id -u)" = 0 ] || die "NETNS=1 needs root"
  for NET in $(seq 0 99); do
    ! ip link add "wcb$NET" type bridge 2>/dev/null || return 0
  done
  die "no bridge could be made: are there wcb0 to wcb99?"
}

net_up() {
  [ "$NETNS" = 1 ] || return 0
  ip addr replace "10.77.$NET.1/24" dev "wcb$NET"
  ip link set "wcb$NET" up
  for i in $(nodes); do namespace "$i"; done
}

# namespace n : as net_up makes it, with an address of its own on the bridge.
namespace() {
  local ns; ns=$(netns "$1")
  ! ip netns list | grep -qw -- "$ns" || return 0
  ip netns add "$ns"
  ip link add "$(veth "$1")" type veth peer name eth0 netns "$ns"
  ip link set "$(veth "$1")" master "wcb$NET" up
  ip netns exec "$ns" ip addr add "$(host "$1")/24" dev eth0
  ip netns exec "$ns" ip link set eth0 up
  ip netns exec "$ns" ip link set lo up
}

net_down() {
  [ "$NETNS" = 1 ] && [ -n "$NET" ] || return 0
  local ns; for ns in $(ip netns list | cut -d' ' -f1 | grep "^wc$NET-"); do ip netns del "$ns" 2>/dev/null || true; done
  ip link del "wcb$NET" 2>/dev/null || true
}

# mute a b : a's packets to b go to nobody's hardware address. So they are lost in silence, as on a
# broken network; a blackhole route would fail a's calls at once.
mute() { ip netns exec "$(netns "$1")" ip neigh replace "$(host "$2")" lladdr 02:00:00:00:00:01 dev eth0 nud permanent; }
unmute() { ip netns exec "$(netns "$1")" ip neigh del "$(host "$2")" dev eth0; }

# --- small disks ---------------------------------------------------------------------

disk_up() {
  [ -n "$KAFKA_DISK" ] || return 0
  [ "$(id -u)" = 0 ] || die "KAFKA_DISK needs root"
  mountpoint -q "$1" || mount -t tmpfs -o "size=$KAFKA_DISK" tmpfs "$1"
}

disks_down() {
  [ -n "$KAFKA_DISK" ] || return 0
  for i in $(nodes); do umount -l "$(dir "$i")/data" 2>/dev/null || true; done
}

main "$@"
