-- +goose Up

-- How many users each tenant has preferences for. Triggers keep it within the transaction that adds or deletes a
-- user, also those of instances and people that do not know this table. A row is locked until the transaction ends.
CREATE TABLE waterclock_user_counts (
    tenant text   PRIMARY KEY,
    users  bigint NOT NULL
);

-- +goose StatementBegin
CREATE FUNCTION waterclock_count_users() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        UPDATE waterclock_user_counts SET users = users - 1 WHERE tenant = OLD.tenant;
    ELSE
        INSERT INTO waterclock_user_counts AS c (tenant, users) VALUES (NEW.tenant, 1)
        ON CONFLICT (tenant) DO UPDATE SET users = c.users + 1;
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- From here to the end of the migration nobody else writes preferences, so the first count is right.
CREATE TRIGGER waterclock_count_users AFTER INSERT OR DELETE ON waterclock_preferences
    FOR EACH ROW EXECUTE FUNCTION waterclock_count_users();
INSERT INTO waterclock_user_counts (tenant, users)
SELECT tenant, count(*) FROM waterclock_preferences GROUP BY tenant;

-- +goose Down
DROP TRIGGER waterclock_count_users ON waterclock_preferences;
DROP FUNCTION waterclock_count_users;
DROP TABLE waterclock_user_counts;
