package dev.waterclock;

import java.time.Duration;
import java.time.Instant;
import java.time.ZoneId;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * When: exactly one of delay, fireAt and recurrence; include alone is a recurrence too.
 *
 * <p>Durations as text are {@code 7m}, {@code 1h30m}, {@code 2d}, {@code 500ms} or {@code PT7M}. Instants as text are
 * RFC 3339, or a local date-time beside a time zone.
 *
 * @param <T> the type itself
 */
public abstract class TimeFields<T extends TimeFields<T>> {
    private static final List<String> NAMES = List.of("delay", "fire_at", "recurrence", "start", "timezone", "until",
            "count", "include", "exclude", "dst", "calendars");

    final Map<String, Object> fields = new LinkedHashMap<>();

    /** A merge patch after which the time is this alone, as after the op by Kafka: it removes the other fields. */
    static Map<String, Object> replacement(Map<String, Object> time) {
        Map<String, Object> patch = new LinkedHashMap<>();
        NAMES.forEach(name -> patch.put(name, null));
        patch.putAll(time);
        return patch;
    }

    TimeFields() {}

    /** Sets a field by its name in the API. It is for fields that this version has no method for. */
    @SuppressWarnings("unchecked")
    public T set(String name, Object value) {
        fields.put(name, value);
        return (T) this;
    }

    /** Counts from the brokers' append of the command. */
    public T delay(Duration delay) {
        return set("delay", delay);
    }

    public T delay(String delay) {
        return set("delay", delay);
    }

    public T fireAt(Instant at) {
        return set("fire_at", at);
    }

    /** An instant, or a wall time beside {@link #timezone}. */
    public T fireAt(String at) {
        return set("fire_at", at);
    }

    /** {@code RRULE:…}, {@code FREQ=…}, {@code cron:…} or {@code every:…}. */
    public T recurrence(String rule) {
        return set("recurrence", rule);
    }

    public T start(String start) {
        return set("start", start);
    }

    /** An IANA name, such as {@code America/New_York}. */
    public T timezone(String zone) {
        return set("timezone", zone);
    }

    public T timezone(ZoneId zone) {
        return set("timezone", zone);
    }

    public T until(String until) {
        return set("until", until);
    }

    public T count(int count) {
        return set("count", count);
    }

    public T include(String... dates) {
        return set("include", List.of(dates));
    }

    /** A bare date leaves out all of that day. */
    public T exclude(String... dates) {
        return set("exclude", List.of(dates));
    }

    /** What happens to wall times that do not exist ({@code shift|skip}) or exist twice ({@code first|second|both}). */
    public T dst(String gap, String overlap) {
        return set("dst", Map.of("gap", gap, "overlap", overlap));
    }

    /** Calendars whose dates are left out or moved: {@code skip|next_business_day|previous_business_day}. */
    public T calendars(String on, String... names) {
        return set("calendars", Map.of("on", on, "names", List.of(names)));
    }
}
