#!/usr/bin/env bash
# Debian's PostgreSQL as a private cluster: loopback, trusting log-in, no system service.
#
#   postgres.sh start                 start it, print WATERCLOCK_TEST_POSTGRES=...
#   postgres.sh stop | kill9 | restart | env | clean      as kafka.sh
#   postgres.sh prepare | run         what start is made of; run becomes the server
#
# PG_PORT=p, default a free one; remembered until clean. The server refuses to be root: root runs
# it as `postgres`, and then run must already be that user.
. "$(dirname "$0")/common.sh"
ROOT="$SVC_HOME/postgres"
SETTINGS="$ROOT/settings"
if [ -f "$SETTINGS" ]; then . "$SETTINGS"; fi
PG_PORT=${PG_PORT:-}
BIN=${PG_BIN:-$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)}

main() {
  [ -x "$BIN/initdb" ] || die "no PostgreSQL: type  apt-get install -y postgresql"
  case ${1:-start} in
    start) prepare; launch; print_env ;;
    prepare) prepare; print_env ;;
    run) run ;;
    restart) launch ;;
    stop) stop_pid "$ROOT/pid" INT 20 ;;
    kill9) stop_pid "$ROOT/pid" KILL 10 ;;
    env) print_env ;;
    clean) stop_pid "$ROOT/pid" QUIT 10; remove_ours ;;
    *) die "unknown command $1" ;;
  esac
}

as_server() { if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi; }

prepare() {
  mkdir -p "$ROOT"
  [ -n "$PG_PORT" ] || PG_PORT=$(free_ports 1)
  echo "PG_PORT=$PG_PORT" > "$SETTINGS"
  if [ "$(id -u)" = 0 ]; then chown postgres "$ROOT"; chmod a+rx "$SVC_HOME"; fi
  [ -f "$ROOT/data/PG_VERSION" ] \
    || as_server "$BIN/initdb" -D "$ROOT/data" -A trust -U waterclock -E UTF8 --locale=C.UTF-8 --no-sync > "$ROOT/initdb.log" 2>&1 \
    || { cat "$ROOT/initdb.log" >&2; die "initdb failed"; }
}

launch() {
  if alive "$(pid_of "$ROOT/pid")"; then say "postgres runs already"; return 0; fi
  ! port_taken 127.0.0.1 "$PG_PORT" || die "port $PG_PORT is taken: set PG_PORT"
  rm -f "$ROOT/data/postmaster.pid" # of a server that was killed: ours is known to be down
  if [ "$(id -u)" = 0 ]; then set -- setpriv --reuid postgres --regid postgres --init-groups; else set --; fi
  setsid nohup "$@" "$0" run > /dev/null 2>&1 < /dev/null &
  echo $! > "$ROOT/pid"
  wait_ready postgres "$ROOT/pid" "$ROOT/log" 30 "$BIN/pg_isready" -q -h 127.0.0.1 -p "$PG_PORT"
}

# run becomes the server: whoever started this script has the server's process.
run() {
  exec "$BIN/postgres" -D "$ROOT/data" -p "$PG_PORT" -k "$ROOT" -h 127.0.0.1 \
    -c shared_buffers=64MB -c max_connections=50 >> "$ROOT/log" 2>&1 < /dev/null
}

print_env() { echo "WATERCLOCK_TEST_POSTGRES=postgres://waterclock@127.0.0.1:$PG_PORT/postgres?sslmode=disable"; }

main "$@"
