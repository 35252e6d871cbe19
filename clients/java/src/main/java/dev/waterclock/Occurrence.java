package dev.waterclock;

import dev.waterclock.internal.Json;
import java.time.Instant;
import java.util.Map;

/** A coming or previewed occurrence. {@link #raw} has every field. */
public record Occurrence(Map<String, Object> raw) {
    /** Nominal instant, without jitter. */
    public Instant at() {
        return Json.instant(raw, "at");
    }

    /** With its offset; of a preview. */
    public String local() {
        return Json.text(raw, "local");
    }

    /** In its zone, such as {@code 2026-11-20T09:00:00[America/New_York]}; of a trigger with a local time. */
    public String localTime() {
        return Json.text(raw, "local_time");
    }

    /** Its name, as in ce_id; of a trigger. */
    public String occurrence() {
        return Json.text(raw, "occurrence");
    }

    /** Such as {@code gap: shifted 1h}. */
    public String note() {
        return Json.text(raw, "note");
    }
}
