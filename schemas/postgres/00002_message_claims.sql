-- +goose Up

-- What channels with dedup_window or max_per_user decided to send to a user: a row for each message, by
-- its ce_id. occurrence is ce_id without the escalation step. refused is '' or the code of the receipt.
CREATE TABLE waterclock_message_claims (
    tenant     text        NOT NULL,
    user_id    text        NOT NULL,
    channel    text        NOT NULL,
    ce_id      text        NOT NULL,
    occurrence text        NOT NULL,
    type       text        NOT NULL,
    refused    text        NOT NULL,
    claimed_at timestamptz NOT NULL,
    kept_until timestamptz NOT NULL,
    PRIMARY KEY (tenant, user_id, channel, ce_id)
);
CREATE INDEX waterclock_message_claims_sent ON waterclock_message_claims (tenant, user_id, channel, claimed_at)
    WHERE refused = '';
CREATE INDEX waterclock_message_claims_over ON waterclock_message_claims (kept_until);

-- +goose Down
DROP TABLE waterclock_message_claims;
