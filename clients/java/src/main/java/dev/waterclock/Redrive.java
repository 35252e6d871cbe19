package dev.waterclock;

import dev.waterclock.internal.Json;
import java.util.Map;

/** How far a redrive is. {@link #raw} has every field. */
public record Redrive(Map<String, Object> raw) {
    /** Dead letters that the filter leaves. */
    public long matched() {
        return Json.integer(raw, "matched");
    }

    public long redriven() {
        return Json.integer(raw, "redriven");
    }

    /** Those that are live or were redriven already. */
    public long duplicate() {
        return Json.integer(raw, "duplicate");
    }

    public long refused() {
        return Json.integer(raw, "refused");
    }

    public boolean done() {
        return Boolean.TRUE.equals(raw.get("done"));
    }
}
