-- +goose Up

-- The newest message of a type to a user: without it, one user with very many messages of other types
-- holds up the whole batch.
CREATE INDEX waterclock_message_claims_type ON waterclock_message_claims (tenant, user_id, channel, type, claimed_at)
    WHERE refused = '' AND type <> '';

-- +goose Down
DROP INDEX waterclock_message_claims_type;
