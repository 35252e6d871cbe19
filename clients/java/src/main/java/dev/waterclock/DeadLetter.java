package dev.waterclock;

import dev.waterclock.internal.Json;
import java.time.Instant;
import java.util.Map;

/** An occurrence that nobody could deliver. {@link #raw} has every field. */
public record DeadLetter(Map<String, Object> raw) {
    public String triggerId() {
        return Json.text(raw, "trigger_id");
    }

    public String ceId() {
        return Json.text(raw, "ce_id");
    }

    /** Why it is a dead letter. */
    public String code() {
        return Json.text(raw, "code");
    }

    public String detail() {
        return Json.text(raw, "detail");
    }

    public int attempts() {
        return (int) Json.integer(raw, "attempts");
    }

    public String channel() {
        return Json.text(raw, "channel");
    }

    public Instant failedAt() {
        return Json.instant(raw, "failed_at");
    }

    /** open, redriven or resolved. */
    public String status() {
        return Json.text(raw, "status");
    }
}
