package dev.waterclock;

import java.time.Duration;
import java.time.Instant;
import java.util.Map;

/** How long a snooze is: {@link #by} a duration, or {@link #until} an instant or a wall time in the trigger's zone. */
public final class Snooze {
    private final String name;
    private final Object value;

    private Snooze(String name, Object value) {
        this.name = name;
        this.value = value;
    }

    public static Snooze by(Duration d) {
        return new Snooze("for", d);
    }

    /** Such as {@code 10m}. */
    public static Snooze by(String duration) {
        return new Snooze("for", duration);
    }

    public static Snooze until(Instant at) {
        return new Snooze("until", at);
    }

    public static Snooze until(String at) {
        return new Snooze("until", at);
    }

    Map<String, Object> fields() {
        return value == null ? Map.of() : Map.of(name, value);
    }
}
