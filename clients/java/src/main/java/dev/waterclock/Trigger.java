package dev.waterclock;

import dev.waterclock.internal.Json;
import java.time.Instant;
import java.util.Base64;
import java.util.Map;

/** A trigger as it is. {@link #raw} has every field, by its name in the API. */
public record Trigger(Map<String, Object> raw) {
    public String triggerId() {
        return Json.text(raw, "trigger_id");
    }

    public String tenant() {
        return Json.text(raw, "tenant");
    }

    /** PENDING, PAUSED, IN_FLIGHT, FIRED, FAILED, CANCELLED or EXPIRED. */
    public String state() {
        return Json.text(raw, "state");
    }

    public long revision() {
        return Json.integer(raw, "revision");
    }

    public String channel() {
        return Json.text(raw, "channel");
    }

    public String userId() {
        return Json.text(raw, "user_id");
    }

    /** Nominal instant of the next occurrence, or the last one's; null if there is none. */
    public Instant fireAt() {
        return Json.instant(raw, "fire_at");
    }

    /** With jitter and snoozes; null if nothing is planned. */
    public Instant nextFireAt() {
        return Json.instant(raw, "next_fire_at");
    }

    public String localTime() {
        return Json.text(raw, "local_time");
    }

    public String timezone() {
        return Json.text(raw, "timezone");
    }

    public String recurrence() {
        return Json.text(raw, "recurrence");
    }

    public int attempt() {
        return (int) Json.integer(raw, "attempt");
    }

    /** As JSON: Map, List, text, number. Null if it is none, or bytes. */
    public Object payload() {
        return raw.get("payload");
    }

    /** The payload as an object of a class. */
    public <T> T payload(Class<T> type) {
        return Json.convert(raw.get("payload"), type);
    }

    /** A payload that is not JSON; else null. */
    public byte[] payloadBytes() {
        return raw.get("payload_base64") instanceof String s ? Base64.getDecoder().decode(s) : null;
    }

    public Instant createdAt() {
        return Json.instant(raw, "created_at");
    }

    public Instant updatedAt() {
        return Json.instant(raw, "updated_at");
    }

    static Trigger of(Map<String, Object> raw) {
        if (!(raw.get("trigger_id") instanceof String) || !(raw.get("state") instanceof String)) {
            throw new IllegalArgumentException("it is no trigger");
        }
        return new Trigger(raw);
    }
}
