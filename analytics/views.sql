-- Views of an export of Waterclock, for DuckDB. `waterclock events views` wrote this file;
-- docs/analytics/export.md explains it.

-- Every row of every file, with the file it is from.
CREATE OR REPLACE VIEW event_files AS
SELECT * FROM read_parquet('{dir}/[et]*/**/*.parquet', filename = 'file', hive_partitioning = false);

-- Every event once. The tail counts only above what is sealed.
CREATE OR REPLACE VIEW events AS
SELECT * EXCLUDE (file) FROM event_files WHERE NOT regexp_matches(file, '/tail/p=[0-9]+\.parquet$')
UNION ALL
SELECT t.* EXCLUDE (file)
FROM event_files t
LEFT JOIN (
  SELECT log_partition, max(log_offset) AS log_offset FROM event_files
  WHERE NOT regexp_matches(file, '/tail/p=[0-9]+\.parquet$') GROUP BY ALL
) sealed ON sealed.log_partition = t.log_partition
WHERE regexp_matches(file, '/tail/p=[0-9]+\.parquet$') AND t.log_offset > coalesce(sealed.log_offset, -1);

-- What went out: a row for each due event.
CREATE OR REPLACE VIEW fires AS
SELECT tenant, trigger, occurrence, step, attempt, channel, user_id, tags, scheduled_at, occurred_at AS fired_at,
  lateness_ms, first_fired_at, due_topic, due_partition, event_id, log_partition, log_offset
FROM events WHERE type = 'occurrence.fired';

-- How late first emissions were, by hour and channel. Retries, further steps and redriven events do not count.
CREATE OR REPLACE VIEW lateness AS
SELECT time_bucket(INTERVAL 1 HOUR, make_timestamp(epoch_us(scheduled_at))) AS hour, tenant, channel,
  count(*) AS fires, quantile_disc(lateness_ms, 0.5) AS p50_ms, quantile_disc(lateness_ms, 0.99) AS p99_ms,
  max(lateness_ms) AS max_ms
FROM fires WHERE step = 0 AND attempt = 1 AND lateness_ms IS NOT NULL GROUP BY ALL;

-- How each notification fared: a row for each step of an occurrence that was answered. The outcome is its last
-- delivery event.
CREATE OR REPLACE VIEW deliveries AS
SELECT tenant, trigger, occurrence, step, any_value(channel) AS channel, any_value(user_id) AS user_id,
  max(attempt) AS attempts, count(*) AS answers, substr(arg_max(type, log_offset), 10) AS outcome,
  arg_max(reason, log_offset) AS reason, min(first_fired_at) AS first_fired_at, max(occurred_at) AS answered_at
FROM events WHERE starts_with(type, 'delivery.') AND occurrence IS NOT NULL GROUP BY ALL;

-- Steps of escalations, and what ended them.
CREATE OR REPLACE VIEW escalations AS
SELECT tenant, trigger, occurrence, count(*) FILTER (type = 'escalation.advanced') AS steps,
  max(step) AS last_step, arg_max(channel, log_offset) AS last_channel,
  max(occurred_at) FILTER (type = 'escalation.stopped') AS stopped_at,
  arg_max(reason, log_offset) FILTER (type = 'escalation.stopped') AS reason
FROM events WHERE type IN ('escalation.advanced', 'escalation.stopped') GROUP BY ALL;

-- Attempts that went out twice. There should be none. What was postponed, snoozed, redriven or planned anew goes
-- out as the same attempt, so the events of these begin another round.
CREATE OR REPLACE VIEW double_fires AS
WITH twice AS (
  SELECT DISTINCT tenant, trigger FROM fires
  GROUP BY tenant, trigger, occurrence, step, attempt HAVING count(*) > 1
), rounds AS (
  SELECT tenant, trigger, occurrence, step, attempt, type, occurred_at, log_offset,
    count(*) FILTER (type IN ('trigger.registered', 'trigger.replaced', 'trigger.rescheduled'))
      OVER (PARTITION BY tenant, trigger ORDER BY log_offset) AS plan,
    count(*) FILTER (type IN ('delivery.postponed', 'delivery.redriven', 'occurrence.snoozed'))
      OVER (PARTITION BY tenant, trigger, occurrence ORDER BY log_offset) AS round
  FROM events SEMI JOIN twice USING (tenant, trigger)
)
SELECT tenant, trigger, occurrence, step, attempt, count(*) AS fires, min(occurred_at) AS first_fired_at,
  max(occurred_at) AS last_fired_at, list(log_offset ORDER BY log_offset) AS log_offsets
FROM rounds WHERE type = 'occurrence.fired'
GROUP BY tenant, trigger, occurrence, step, attempt, plan, round HAVING count(*) > 1;

-- Events that are missing: seq counts per trigger, without gaps. A gap that was accepted shows here.
CREATE OR REPLACE VIEW seq_gaps AS
SELECT tenant, trigger, before AS seq_before, seq AS seq_after, log_partition, log_offset FROM (
  SELECT tenant, trigger, seq, log_partition, log_offset,
    lag(seq) OVER (PARTITION BY tenant, trigger ORDER BY log_offset) AS before
  FROM events WHERE seq IS NOT NULL
) WHERE seq <> before + 1 AND seq <> 1;

-- The last that each trigger's events said of it at an instant. A trigger that has said nothing since the export
-- begins is not in it.
CREATE OR REPLACE MACRO triggers_as_of(t) AS TABLE
SELECT tenant, trigger, arg_max(state, log_offset) AS state, arg_max(type, log_offset) AS last_event,
  max(seq) AS seq, arg_max(scheduled_at, log_offset) AS scheduled_at, arg_max(next_at, log_offset) AS next_at,
  arg_max(channel, log_offset) AS channel, max(event_us) AS at
FROM events WHERE epoch_us(event_us) <= epoch_us(t) AND seq IS NOT NULL GROUP BY ALL;

-- Triggers that were waiting at an instant.
CREATE OR REPLACE MACRO pending_at(t) AS TABLE
SELECT * FROM triggers_as_of(t) WHERE state IN ('PENDING', 'PAUSED');
