package dev.waterclock.internal;

import java.time.Duration;

/** Durations as Waterclock writes them. */
public final class Durations {
    private static final String[] NAMES = {"d", "h", "m", "s"};
    private static final long[] MILLIS = {86_400_000, 3_600_000, 60_000, 1000};

    private Durations() {}

    /** Whole milliseconds, rounded up, in the largest unit that has no fraction. */
    public static String text(Duration d) {
        long ms = d.toMillis() + (d.toNanosPart() % 1_000_000 > 0 ? 1 : 0);
        if (ms == 0) {
            return "0s";
        }
        for (int i = 0; i < NAMES.length; i++) {
            if (ms % MILLIS[i] == 0) {
                return ms / MILLIS[i] + NAMES[i];
            }
        }
        return ms + "ms";
    }
}
