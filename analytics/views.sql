-- Views of an export of Waterclock, for DuckDB. `waterclock events views` wrote this file;
-- docs/analytics/export.md explains it.

-- Sealed files never change. DuckDB keeps the schemas and statistics that it has read once in a session, and reads
-- those of a file that was replaced anew.
SET parquet_metadata_cache = true;

-- Every row of every file, with the file it is from.
CREATE OR REPLACE VIEW event_files AS
SELECT * FROM read_parquet('{dir}/[et]*/**/*.parquet', filename = 'file', hive_partitioning = false);

-- Which file has what, by its name. Of a tail (date is null), rows count whose offset is above what is sealed.
CREATE OR REPLACE VIEW files AS
WITH named AS MATERIALIZED ( -- else DuckDB lists the directory twice
  SELECT file, CAST(regexp_extract(file, '/p=([0-9]+)(/[0-9]+-[0-9]+)?\.parquet$', 1) AS INTEGER) AS log_partition,
    TRY_CAST(regexp_extract(file, '/date=([0-9-]+)/p=[0-9]+/[0-9]+-[0-9]+\.parquet$', 1) AS DATE) AS date,
    TRY_CAST(regexp_extract(file, '-([0-9]+)\.parquet$', 1) AS BIGINT) AS last
  FROM glob('{dir}/[et]*/**/*.parquet')
)
SELECT file, log_partition, date,
  CASE WHEN date IS NULL THEN coalesce(max(last) OVER (PARTITION BY log_partition), -1) ELSE -1 END AS above
FROM named;

-- Every event once. The tail counts only above what is sealed. With LIKE, DuckDB passes over the files of the other
-- branch; with a regular expression it would read all files twice.
CREATE OR REPLACE VIEW events AS
SELECT * EXCLUDE (file) FROM event_files WHERE file NOT LIKE '%/tail/p=%'
UNION ALL
SELECT t.* EXCLUDE (file) FROM event_files t JOIN files ON files.file = t.file
WHERE t.file LIKE '%/tail/p=%' AND t.log_offset > files.above;

-- What went out: a row for each due event.
CREATE OR REPLACE VIEW fires AS
SELECT tenant, trigger, occurrence, step, attempt, channel, user_id, tags, scheduled_at, occurred_at AS fired_at,
  lateness_ms, first_fired_at, due_topic, due_partition, event_id, log_partition, log_offset
FROM events WHERE type = 'occurrence.fired';

-- How late first emissions were, by hour and channel. Retries, further steps, redriven events, what was postponed and
-- went out again, snoozes and runs do not count. A further step is a first emission if due topics refused those before.
CREATE OR REPLACE VIEW lateness AS
SELECT hour, tenant, channel, fires, ranked[1] AS p50_ms, ranked[2] AS p99_ms, max_ms FROM (
  SELECT to_timestamp(epoch(time_bucket(INTERVAL 1 HOUR, make_timestamp(epoch_us(scheduled_at))))) AS hour, tenant,
    channel, count(*) AS fires, quantile_disc(late, [0.5, 0.99]) AS ranked, max(late) AS max_ms
  FROM (SELECT *, CASE WHEN step = 0 THEN lateness_ms ELSE epoch_ms(fired_at) - epoch_ms(scheduled_at) END AS late
    FROM fires)
  WHERE attempt = 1 AND (step = 0 AND first_fired_at IS NULL OR first_fired_at = fired_at)
    AND NOT starts_with(coalesce(occurrence, ''), 'snz-') AND NOT starts_with(coalesce(occurrence, ''), 'run-')
    AND late IS NOT NULL GROUP BY ALL);

-- How each notification fared: a row for each step of an occurrence that was answered. The outcome is its last
-- delivery event. Of receipts that came too late to change anything, those count that say it was delivered. None counts
-- on a channel without receipts.
CREATE OR REPLACE VIEW deliveries AS
SELECT tenant, trigger, occurrence, step, arg_min(channel, log_offset) AS channel,
  arg_min(user_id, log_offset) AS user_id, max(attempt) AS attempts, count(*) AS answers,
  substr(arg_max(type, log_offset), 10) AS outcome, arg_max_null(reason, log_offset) AS reason,
  min(first_fired_at) AS first_fired_at, max(occurred_at) AS answered_at
FROM events WHERE starts_with(type, 'delivery.') AND occurrence IS NOT NULL
  AND (coalesce(reason, '') NOT IN ('late', 'unknown', 'no_receipts')
    OR type = 'delivery.delivered' AND reason = 'late') GROUP BY ALL;

-- Steps of escalations, and what ended them.
CREATE OR REPLACE VIEW escalations AS
SELECT tenant, trigger, occurrence, count(*) FILTER (type = 'escalation.advanced') AS steps,
  max(step) AS last_step, arg_max(channel, log_offset) AS last_channel,
  max(occurred_at) FILTER (type = 'escalation.stopped') AS stopped_at,
  arg_max(reason, log_offset) FILTER (type = 'escalation.stopped') AS reason
FROM events WHERE type IN ('escalation.advanced', 'escalation.stopped') GROUP BY ALL;

-- Attempts that went out twice. There should be none. What was postponed, snoozed or redriven may go out as the same
-- attempt, so the events of these begin another round. So does a register of a key that was forgotten.
CREATE OR REPLACE VIEW double_fires AS
WITH suspects AS ( -- a hash takes much less memory than what it is of; what is equal by chance falls out below
  SELECT hash(tenant, trigger, occurrence, step, attempt) AS attempt_hash FROM fires
  GROUP BY attempt_hash HAVING count(*) > 1
), twice AS (
  SELECT DISTINCT tenant, trigger FROM fires
  WHERE hash(tenant, trigger, occurrence, step, attempt) IN (FROM suspects)
), rounds AS (
  SELECT tenant, trigger, occurrence, step, attempt, type, occurred_at, log_offset,
    count(*) FILTER (type = 'trigger.registered') OVER (PARTITION BY tenant, trigger ORDER BY log_offset) AS life,
    count(*) FILTER (type IN ('delivery.postponed', 'delivery.redriven', 'occurrence.snoozed'))
      OVER (PARTITION BY tenant, trigger, occurrence ORDER BY log_offset) AS round
  FROM events SEMI JOIN twice USING (tenant, trigger)
)
SELECT tenant, trigger, occurrence, step, attempt, count(*) AS fires, min(occurred_at) AS first_fired_at,
  max(occurred_at) AS last_fired_at, list(log_offset ORDER BY log_offset) AS log_offsets
FROM rounds WHERE type = 'occurrence.fired'
GROUP BY tenant, trigger, occurrence, step, attempt, life, round HAVING count(*) > 1;

-- Events that are missing: seq counts per trigger, without gaps. A gap that was accepted shows here. Only triggers
-- whose count or sum of squares is not that of a row of numbers are sorted by offset.
CREATE OR REPLACE VIEW seq_gaps AS
WITH suspects AS (
  SELECT hash(tenant, trigger) AS trigger_hash FROM events WHERE seq IS NOT NULL GROUP BY trigger_hash
  HAVING count(*) <> max(seq) - min(seq) + 1 OR sum(CAST(seq AS DOUBLE) * seq) <>
    (max(seq) * (max(seq) + 1.0) * (2 * max(seq) + 1) - (min(seq) - 1) * min(seq) * (2.0 * min(seq) - 1)) / 6
)
SELECT tenant, trigger, before AS seq_before, seq AS seq_after, log_partition, log_offset FROM (
  SELECT tenant, trigger, seq, log_partition, log_offset,
    lag(seq) OVER (PARTITION BY tenant, trigger ORDER BY log_offset) AS before
  FROM events WHERE seq IS NOT NULL AND hash(tenant, trigger) IN (FROM suspects)
) WHERE seq <> before + 1 AND seq <> 1;

-- All triggers of a partition at the end of a day (UTC): those that had not ended, and those that ended on that day or
-- on the one before.
CREATE OR REPLACE VIEW snapshots AS
SELECT * FROM read_parquet('{dir}/snapshots/*/*.parquet', hive_partitioning = true, hive_types = {'date': DATE});

-- What an event says of its trigger. Where says_next, a null of next_at says that nothing is planned; where says_plan,
-- nulls of rule, channel, user_id, correlation_id and tags say that there is none.
CREATE OR REPLACE VIEW said AS
SELECT file, log_partition, log_offset, type, trigger, tenant, revision, seq, event_us, occurred_at, scheduled_at,
  next_at, CASE WHEN type = 'trigger.registered' THEN occurred_at END AS created_at, state, rule,
  CASE WHEN type <> 'trigger.erased' THEN channel END AS channel,
  CASE WHEN type <> 'trigger.erased' THEN user_id END AS user_id,
  CASE WHEN type <> 'trigger.erased' THEN correlation_id END AS correlation_id,
  CASE WHEN type <> 'trigger.erased' THEN tags END AS tags,
  starts_with(type, 'trigger.') OR starts_with(type, 'occurrence.')
    OR type IN ('delivery.failed', 'delivery.dead_lettered') AS says_next,
  rule IS NOT NULL OR type = 'trigger.erased' AS says_plan
FROM event_files WHERE seq IS NOT NULL AND type IS NOT NULL;

-- The day of each snapshot, by its name.
CREATE OR REPLACE VIEW snapshot_files AS
SELECT CAST(regexp_extract(file, '/p=([0-9]+)\.parquet$', 1) AS INTEGER) AS log_partition,
  CAST(regexp_extract(file, '/date=([0-9-]+)/p=[0-9]+\.parquet$', 1) AS DATE) AS date
FROM glob('{dir}/snapshots/*/*.parquet');

-- What triggers_as_of and pending_at choose from: the newest snapshots before the day (UTC) of an instant, and the
-- events since. event_us grows within a partition, so events of later days are newer than the snapshot. All events of a
-- decision have the same occurred_at, so no decision is cut.
-- Each file is read once, and of it only the columns that are asked for: above a CTE that is MATERIALIZED, DuckDB
-- computes all columns.
CREATE OR REPLACE MACRO known_at(t) AS TABLE
WITH base AS NOT MATERIALIZED (
  SELECT log_partition, max(date) AS date FROM snapshot_files
  WHERE date < CAST(make_timestamp(epoch_us(t)) AS DATE) GROUP BY ALL
), old AS NOT MATERIALIZED (
  SELECT s.* FROM snapshots s JOIN base ON base.log_partition = s.log_partition AND base.date = s.date
), since AS NOT MATERIALIZED (
  SELECT file, above, to_timestamp(epoch(coalesce(base.date + 1, DATE '1970-01-01'))) AS from_us
  FROM files LEFT JOIN base USING (log_partition)
  WHERE files.date IS NULL
    OR files.date > coalesce(base.date, DATE '1970-01-01') AND files.date <= CAST(make_timestamp(epoch_us(t)) AS DATE)
), new AS NOT MATERIALIZED (
  SELECT {standing}, bool_or(says_next) AS says_next, bool_or(says_plan) AS says_plan
  FROM said JOIN since ON since.file = said.file
    AND said.log_offset > since.above AND said.event_us >= since.from_us
  WHERE epoch_ms(occurred_at) <= epoch_ms(t) GROUP BY tenant, trigger
)
SELECT coalesce(n.tenant, o.tenant) AS tenant, coalesce(n.trigger, o.trigger) AS trigger,
  coalesce(n.state, o.state) AS state, coalesce(n.last_event, o.type) AS last_event,
  CASE WHEN n.seq IS NULL THEN o.revision ELSE n.revision END AS revision, coalesce(n.seq, o.seq) AS seq,
  coalesce(n.scheduled_at, o.scheduled_at) AS scheduled_at,
  CASE WHEN n.says_next THEN n.next_at ELSE o.next_at END AS next_at,
  CASE WHEN n.says_plan THEN n.channel ELSE o.channel END AS channel,
  CASE WHEN n.says_plan THEN n.user_id ELSE o.user_id END AS user_id,
  CASE WHEN n.says_plan THEN n.correlation_id ELSE o.correlation_id END AS correlation_id,
  CASE WHEN n.says_plan THEN n.tags ELSE o.tags END AS tags, CASE WHEN n.says_plan THEN n.rule ELSE o.rule END AS rule,
  coalesce(n.created_at, o.created_at) AS created_at, coalesce(n.updated_at, o.event_us) AS updated_at
FROM new n FULL JOIN old o ON o.trigger = n.trigger AND o.tenant IS NOT DISTINCT FROM n.tenant;

-- What was known of all triggers at an instant: of those that had not ended, and of those that ended on its day (UTC)
-- or the two days before.
CREATE OR REPLACE MACRO triggers_as_of(t) AS TABLE
SELECT * FROM known_at(t) WHERE state IN ('PENDING', 'PAUSED', 'IN_FLIGHT')
  OR CAST(make_timestamp(epoch_us(updated_at)) AS DATE) >= CAST(make_timestamp(epoch_us(t)) AS DATE) - 2;

-- Triggers that were waiting at an instant.
CREATE OR REPLACE MACRO pending_at(t) AS TABLE
SELECT * FROM known_at(t) WHERE state IN ('PENDING', 'PAUSED');

-- What was known of one trigger at an instant, also if it had ended long before. It reads the events of that key alone.
CREATE OR REPLACE MACRO trigger_as_of(key, t) AS TABLE
SELECT {standing}
FROM said JOIN files ON files.file = said.file
WHERE trigger = key AND said.log_offset > files.above AND epoch_ms(occurred_at) <= epoch_ms(t)
GROUP BY tenant, trigger;
