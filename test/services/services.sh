#!/usr/bin/env bash
# services.sh up | down | status : Kafka, Cassandra and PostgreSQL for the tests, all at once.
# up prints lines for eval:  eval "$(test/services/services.sh up)"
. "$(dirname "$0")/common.sh"
ALL="kafka cassandra postgres"

case ${1:-} in
  up)
    mkdir -p "$SVC_HOME"
    for s in $ALL; do "$HERE/$s.sh" start > "$SVC_HOME/$s.env" & done
    failed=0; for job in $(jobs -p); do wait "$job" || failed=1; done
    [ $failed = 0 ] || die "not all services are up"
    for s in $ALL; do sed 's/^/export /; s/=\(.*\)/='"'\1'"'/' "$SVC_HOME/$s.env"; done ;;
  down)
    for s in $ALL; do "$HERE/$s.sh" clean; rm -f "$SVC_HOME/$s.env"; done
    rmdir "$SVC_HOME" 2>/dev/null || true ;; # what others keep there stays
  status) for s in kafka cassandra; do "$HERE/$s.sh" status; done ;;
  *) die "usage: services.sh up|down|status" ;;
esac
