#!/bin/sh
# Everything by HTTP: nobody has to know Kafka.
set -e
: "${WATERCLOCK_URL:=http://127.0.0.1:8080}"
post() { curl -s -X POST -H 'content-type: application/json' "$@"; }

# The Idempotency-Key names the trigger: say it again, and it is the same one.
post -H 'Idempotency-Key: order-77' "$WATERCLOCK_URL/v1/triggers" -d '{"delay":"10m","payload":{"order":77}}'  #= "revision":1
post -H 'Idempotency-Key: order-77' "$WATERCLOCK_URL/v1/triggers" -d '{"delay":"11m","payload":{"order":77}}'  #= idempotency_conflict

# With an id of your own, and a condition.
curl -s -X PUT -H 'content-type: application/json' "$WATERCLOCK_URL/v1/triggers/report" \
  -d '{"recurrence":"cron:0 9 * * 1-5","timezone":"Europe/Berlin"}'  #= "trigger_id":"report"
curl -s -X PATCH -H 'content-type: application/json' -H 'If-Match: "9"' "$WATERCLOCK_URL/v1/triggers/report" -d '{"payload":1}'  #= conflict
post "$WATERCLOCK_URL/v1/triggers/report:snooze" -d '{"for":"30m"}'  #= "trigger_id":"report"
curl -s -X DELETE "$WATERCLOCK_URL/v1/triggers/report"  #= CANCELLED

# A question without a trigger.
post "$WATERCLOCK_URL/v1/preview" -d '{"fire_at":"2026-03-08T02:30","timezone":"America/New_York"}'  #= gap: shifted 1h
