package dev.waterclock;

import dev.waterclock.internal.Json;
import java.time.Instant;
import java.util.Map;

/** One fact of the event log. {@link #raw} has every field, by its name in the log. */
public record Event(Map<String, Object> raw) {
    public String eventId() {
        return Json.text(raw, "event_id");
    }

    /** Such as {@code occurrence.fired}. */
    public String type() {
        return Json.text(raw, "type");
    }

    public String trigger() {
        return Json.text(raw, "trigger");
    }

    public Instant occurredAt() {
        return Json.instant(raw, "occurred_at");
    }

    public String state() {
        return Json.text(raw, "state");
    }

    public String reason() {
        return Json.text(raw, "reason");
    }
}
