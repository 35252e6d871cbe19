#!/bin/sh
# Monday and Wednesday at 09:00, by the user's clock, with a day off.
set -e
: "${WATERCLOCK_URL:=http://127.0.0.1:8080}"

waterclock schedule pills --every 'FREQ=WEEKLY;BYDAY=MO,WE' --start 2030-11-18T09:00 --tz America/New_York \
  --user u_81 --data '{"title":"Take pills"}'  #= trigger.registered

# What is coming, also over HTTP: 09:00 is 14:00 UTC in November, and 13:00 after 9 March.
curl -s "$WATERCLOCK_URL/v1/triggers/pills/occurrences?n=2"  #= 2030-11-18T09:00:00[America/New_York]

# Not on the 20th.
waterclock skip pills --occurrence 2030-11-20  #= occurrence.skipped
curl -s "$WATERCLOCK_URL/v1/triggers/pills/occurrences?n=2"  #= 2030-11-25T09:00:00[America/New_York]

# She moves to Berlin: same wall times, other instants.
waterclock rezone pills --tz Europe/Berlin  #= trigger.rescheduled
waterclock get pills --jq .next_fire_at  #= 2030-11-18T08:00:00

# A nudge now, off schedule; the series stays as it is.
waterclock run pills
waterclock pause pills --note 'in hospital'  #= trigger.paused
waterclock resume pills  #= trigger.resumed
waterclock list --user u_81 -o json --jq '.[].trigger_id'  #= pills
