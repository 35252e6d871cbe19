package dev.waterclock.worker;

import org.slf4j.Logger;

/** At most one line in ten seconds: what fails may fail for every record. */
final class Throttle {
    private static final long EVERY = 10_000_000_000L;

    private final Logger log;
    private long last;
    private boolean logged;
    private int omitted;

    Throttle(Logger log) {
        this.log = log;
    }

    synchronized void warn(String text) {
        long now = System.nanoTime();
        if (logged && now - last < EVERY) {
            omitted++;
            return;
        }
        log.warn("{}{}", text, omitted > 0 ? " (" + omitted + " like it were omitted)" : "");
        logged = true;
        last = now;
        omitted = 0;
    }
}
