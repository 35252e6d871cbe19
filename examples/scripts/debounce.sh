#!/bin/sh
# Save a document 2 s after the last keystroke: a new idempotency key re-arms
# the delay, a repeat of the same key (a retry) does not.
set -e

waterclock schedule doc-7 --in 2s --channel save --idempotency-key edit-1  #= trigger.registered
waterclock schedule doc-7 --in 2s --channel save --idempotency-key edit-2  #= trigger.replaced
waterclock schedule doc-7 --in 2s --channel save --idempotency-key edit-2  #= command.duplicate
waterclock get doc-7 --jq .revision  #= 2
