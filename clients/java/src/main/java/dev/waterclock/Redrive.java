package dev.waterclock;

import dev.waterclock.internal.Json;
import java.util.List;
import java.util.Map;

/**
 * How far a redrive is: counts since its beginning. {@link #raw} has every field.
 *
 * @param refusals why dead letters were refused since the progress before; in the result of a redrive of one trigger,
 *     those of all of it
 */
public record Redrive(Map<String, Object> raw, List<ApiException> refusals) {
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

    /** Those left out because they are past their expires_at. */
    public long expired() {
        return Json.integer(raw, "expired");
    }

    public long refused() {
        return Json.integer(raw, "refused");
    }

    /** Those that are durable, and that the engine is yet to decide. */
    public long pending() {
        return Json.integer(raw, "pending");
    }

    /** Where a redrive with the same filter goes on; "" if there is no such place. */
    public String cursor() {
        return Json.text(raw, "cursor");
    }

    public boolean done() {
        return Boolean.TRUE.equals(raw.get("done"));
    }
}
