# Shared by kafka.sh, cassandra.sh, postgres.sh and fetch.sh; sourced, never run.
#
#   SVC_HOME   data, logs and process ids of running services  (default $TMPDIR/waterclock-test-<uid>)
#   SVC_CACHE  jars, kept between runs                         (default $XDG_CACHE_HOME/waterclock)
#   SVC_JIT    full, or quick: the JVMs compile little, for tests that start many and use each for a short time
#
# Neither is ever inside the repository. Only processes whose id was written at
# start are signalled; nothing is found by name.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
SVC_HOME=${SVC_HOME:-${TMPDIR:-/tmp}/waterclock-test-$(id -u)}
SVC_CACHE=${SVC_CACHE:-${XDG_CACHE_HOME:-${HOME:-$SVC_HOME}/.cache}/waterclock}
SVC_JIT=${SVC_JIT:-full}
JAVA=${JAVA:-${JAVA_HOME:+$JAVA_HOME/bin/}java}
KAFKA_VERSION=${KAFKA_VERSION:-4.3.1}
CASSANDRA_VERSION=${CASSANDRA_VERSION:-5.0.8}

die() { echo "error: $*" >&2; exit 1; }
say() { echo "[$(date +%H:%M:%S)] $*" >&2; }

# need_java MAJOR... : the java found is one of these, or at least the first when followed by "up".
need_java() {
  command -v "$JAVA" >/dev/null || die "no Java: type  apt-get install -y openjdk-17-jdk-headless"
  local have; have=$("$JAVA" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -1)
  if [ "${2:-}" = up ]; then [ "$have" -ge "$1" ] && return 0; fi
  local want; for want in "$@"; do [ "$have" = "$want" ] && return 0; done
  die "Java $have does not run this, $* does: type  apt-get install -y openjdk-17-jdk-headless  and set JAVA_HOME"
}

more_files() { ulimit -n 20000 2>/dev/null || [ "$(ulimit -n)" -ge 4096 ] || say "warning: only $(ulimit -n) open files allowed"; }

# --- ports -----------------------------------------------------------------

# port_taken HOST PORT [NETNS] : something accepts connections there.
port_taken() { in_ns "${3:-}" timeout 2 bash -c 'exec 3<>"/dev/tcp/$0/$1"' "$1" "$2" 2>/dev/null; }

# free_ports N : N different ports where nothing listens, nor on the two above each, outside the
# kernel's ephemeral range, so that no outgoing connection can take one while a node is down.
# Each begins a block of ten: whoever else chooses like this takes the same block or none of it.
free_ports() {
  local want=$1 p i found=" " low=20000 high=30000 from to
  read -r from to < /proc/sys/net/ipv4/ip_local_port_range 2>/dev/null || { from=32768; to=60999; }
  if [ "$from" -lt $high ] && [ "$to" -ge $low ]; then
    if [ "$from" -gt 11000 ]; then low=10000 high=$from; else low=$((to + 1)) high=65530; fi
  fi
  [ $((high - low)) -ge 500 ] || { low=20000; high=30000; } # no room beside it: anywhere will do
  for _ in $(seq 100); do
    [ "$want" -gt 0 ] || { echo $found; return 0; }
    p=$((low + RANDOM % ((high - low) / 10) * 10))
    case $found in *" $p "*) continue ;; esac
    for i in $(seq "$p" $((p + 2))); do ! port_taken 127.0.0.1 "$i" || continue 2; done
    found="$found$p " want=$((want - 1))
  done
  die "no free ports between $low and $high"
}

in_ns() { local ns=$1; shift; if [ -n "$ns" ]; then ip netns exec "$ns" "$@"; else "$@"; fi; }

# --- processes ---------------------------------------------------------------

alive() { [ -n "${1:-}" ] && kill -0 "$1" 2>/dev/null && ! grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2>/dev/null; }
pid_of() { cat "$1" 2>/dev/null || true; }

# stop_pid PIDFILE SIGNAL SECONDS : a process that ignores the signal so long is killed.
stop_pid() {
  local file=$1 signal=$2 seconds=$3 pid; pid=$(pid_of "$1")
  if alive "$pid"; then
    kill -CONT "$pid" 2>/dev/null || true
    kill "-$signal" "$pid" 2>/dev/null || true
    for _ in $(seq $((seconds * 5))); do alive "$pid" || break; sleep 0.2; done
    ! alive "$pid" || { say "process $pid ignored SIG$signal for $seconds s: killed"; kill -KILL "$pid"; }
  fi
  rm -f "$file"
}

# remove_ours : $ROOT, if one of our starts made it.
remove_ours() { if [ -f "$SETTINGS" ]; then rm -rf "$ROOT"; elif [ -e "$ROOT" ]; then die "$ROOT is not ours: left alone"; fi; }

# wait_ready NAME PIDFILE LOG SECONDS PROBE...
wait_ready() {
  local name=$1 pid log=$3 end=$((SECONDS + $4)); pid=$(pid_of "$2"); shift 4
  until "$@"; do
    alive "$pid" || { tail -n 40 "$log" >&2; die "$name died while starting, see $log"; }
    [ $SECONDS -lt $end ] || { tail -n 40 "$log" >&2; die "$name is not ready in time, see $log"; }
    sleep 0.2
  done
  say "$name is ready (process $pid)"
}

# --- probes: the protocol answers, not merely the port -----------------------

# ask HOST PORT NETNS REQUEST BYTES : the first BYTES of the answer, in hex. REQUEST is a printf format.
ask() {
  in_ns "$3" timeout 3 bash -c '
    exec 3<>"/dev/tcp/$0/$1" || exit 1
    printf "$2" >&3
    head -c "$3" <&3 | od -An -v -tx1 | tr -d " \n"' "$1" "$2" "$4" "$5" 2>/dev/null
}
# ApiVersions v0, correlation id 7: size(4) correlation(4) error(2)
probe_kafka() { [[ $(ask "$1" "$2" "${3:-}" '\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x07\xff\xff' 10) == ????????000000070000 ]]; }
# CQL v4 OPTIONS, answered by SUPPORTED (opcode 6)
probe_cql() { [[ $(ask "$1" "$2" "" '\x04\x00\x00\x00\x05\x00\x00\x00\x00' 5) == 84??????06 ]]; }
