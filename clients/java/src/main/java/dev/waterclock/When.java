package dev.waterclock;

import java.time.Duration;
import java.time.Instant;
import java.util.Map;

/** When a trigger fires, for {@link Commands#reschedule}. */
public final class When extends TimeFields<When> {
    /** So long after the command's append. */
    public static When in(Duration delay) {
        return new When().delay(delay);
    }

    public static When at(Instant at) {
        return new When().fireAt(at);
    }

    /** A wall time, such as {@code 2026-11-20T09:00}, in an IANA zone. */
    public static When atLocal(String wall, String zone) {
        return new When().fireAt(wall).timezone(zone);
    }

    public static When every(String rule, String zone) {
        return new When().recurrence(rule).timezone(zone);
    }

    /** The fields by their names in the API. */
    public static When of(Map<String, ?> fields) {
        When w = new When();
        w.fields.putAll(fields);
        return w;
    }
}
