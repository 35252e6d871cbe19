-- +goose Up

-- What a user wants of notifications. document is what GET /v1/preferences/{user} shows; timezone is
-- in it too, and stands here so that a new one is seen within the statement that writes it.
CREATE TABLE waterclock_preferences (
    tenant     text        NOT NULL,
    user_id    text        NOT NULL,
    timezone   text        NOT NULL DEFAULT '',
    document   json        NOT NULL DEFAULT '{}',
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, user_id)
);

-- The outbox of new time zones: a row for each user whose follow_user triggers are yet to be moved.
CREATE SEQUENCE waterclock_zone_moves_seq;
CREATE TABLE waterclock_zone_moves (
    tenant        text        NOT NULL,
    user_id       text        NOT NULL,
    timezone      text        NOT NULL,
    seq           bigint      NOT NULL DEFAULT nextval('waterclock_zone_moves_seq'),
    claim         text        NOT NULL DEFAULT '',
    claimed_until timestamptz NOT NULL DEFAULT '-infinity',
    PRIMARY KEY (tenant, user_id)
);
CREATE INDEX waterclock_zone_moves_oldest ON waterclock_zone_moves (seq);

-- +goose Down
DROP TABLE waterclock_zone_moves;
DROP SEQUENCE waterclock_zone_moves_seq;
DROP TABLE waterclock_preferences;
