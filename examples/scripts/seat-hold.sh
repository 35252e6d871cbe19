#!/bin/sh
# Release a seat hold after 7 minutes, unless it was paid for before.
# "#=" is what the line must have printed; the test in scripts_test.go looks.
set -e

# The hold begins. The due event goes to waterclock.due.orders.
waterclock schedule hold-8c4 --in 7m --channel orders --data '{"holdId":"h_8c4"}'  #= trigger.registered

# The checkout page asks for more time: only the instant moves.
waterclock reschedule hold-8c4 --in 10m  #= trigger.rescheduled

# A producer that did not hear back says it all again. Nothing happens twice.
waterclock schedule hold-8c4 --in 7m --channel orders --data '{"holdId":"h_8c4"}'  #= command.duplicate

# It is paid for: no release.
waterclock cancel hold-8c4  #= trigger.cancelled
waterclock get hold-8c4 --jq .state  #= CANCELLED

# Another one is not paid for. Look at the event that says so.
waterclock schedule hold-8c5 --in 1s --channel orders --data '{"holdId":"h_8c5"}' --wait -o ndjson  #= "due_topic":"waterclock.due.orders"

# Too late: the answer says where it went.
waterclock cancel hold-8c5 2>&1 || echo "exit code $?"  #= it has fired
