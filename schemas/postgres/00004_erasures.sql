-- +goose Up

-- Users who are to be forgotten, and those who were: a row each, by SHA-256 of tenant and user. user_id is ''
-- and before is {} once it is done. Workers do not send due events that were emitted until erased_at. before
-- has the ends of the partitions of topic commands at that time: what was registered behind them is new.
CREATE SEQUENCE waterclock_erasures_seq;
CREATE TABLE waterclock_erasures (
    user_hash     bytea       PRIMARY KEY,
    tenant        text        NOT NULL,
    user_id       text        NOT NULL,
    erased_at     timestamptz NOT NULL,
    before        jsonb       NOT NULL DEFAULT '{}',
    triggers      bigint      NOT NULL DEFAULT 0,
    done_at       timestamptz,
    seq           bigint      NOT NULL DEFAULT nextval('waterclock_erasures_seq'),
    claim         text        NOT NULL DEFAULT '',
    claimed_until timestamptz NOT NULL DEFAULT '-infinity'
);
CREATE INDEX waterclock_erasures_oldest ON waterclock_erasures (seq) WHERE done_at IS NULL;
CREATE INDEX waterclock_erasures_done ON waterclock_erasures (done_at) WHERE done_at IS NOT NULL;

-- +goose Down
DROP TABLE waterclock_erasures;
DROP SEQUENCE waterclock_erasures_seq;
