package dev.waterclock;

import dev.waterclock.internal.Json;
import java.time.Instant;
import java.util.List;
import java.util.Map;

/** The answer to a write. {@link #raw} has all of it. */
public record Answer(int status, Map<String, Object> raw) {
    public String triggerId() {
        return Json.text(raw, "trigger_id");
    }

    /** 0 if the engine is yet to decide. */
    public long revision() {
        return Json.integer(raw, "revision");
    }

    public String state() {
        return Json.text(raw, "state");
    }

    /** Nominal instant of the next occurrence, or the last one's; null if there is none. */
    public Instant fireAt() {
        return Json.instant(raw, "fire_at");
    }

    /** With jitter and snoozes. */
    public Instant nextFireAt() {
        return Json.instant(raw, "next_fire_at");
    }

    /** What may surprise the caller. */
    public List<String> notes() {
        return raw.get("notes") instanceof List<?> l ? l.stream().map(Object::toString).toList() : List.of();
    }

    /** It is new; false for a repeat and a replacement. */
    public boolean created() {
        return status == 201;
    }

    /** False: durable, and the engine is yet to decide. */
    public boolean decided() {
        return status != 202;
    }

    static Answer of(Map<String, Object> raw, int status) {
        if (!(raw.get("trigger_id") instanceof String)) {
            throw new IllegalArgumentException("it has no trigger_id");
        }
        return new Answer(status, raw);
    }
}
