package dev.waterclock;

import dev.waterclock.internal.Json;
import java.time.Instant;
import java.util.Map;

/** How many dead letters have one value in common. {@link #raw} has every field. */
public record DeadLetterCount(Map<String, Object> raw) {
    /** The tenant, code or endpoint; "" for callbacks without one. */
    public String value() {
        return Json.text(raw, "value");
    }

    public long count() {
        return Json.integer(raw, "count");
    }

    /** When the first of them failed. */
    public Instant oldest() {
        return Json.instant(raw, "oldest");
    }

    public Instant newest() {
        return Json.instant(raw, "newest");
    }
}
