package dev.waterclock.worker;

import java.util.function.LongSupplier;

/**
 * Estimates, in milliseconds, how far the brokers' clock is ahead of ours. Kafka has no request for the time, but
 * append times say it: a record polled at our time t and appended at the broker's time a makes it ahead by at least
 * a-t; if its offset is not below the end of the log that was asked for at our time t0, it is ahead by at most a-t0.
 * Our clock counts unless these bounds say otherwise.
 */
final class BrokerClock {
    private static final double UNBOUNDED = 1e15;
    private static final double DRIFT = 1e-3; // clocks run apart: a bound weakens by 1 ms a second

    private final LongSupplier passed; // in nanoseconds
    private final long begin;
    private double low = -UNBOUNDED;
    private double high = UNBOUNDED;
    private long at;

    BrokerClock(long systemMs, LongSupplier passed) {
        this.passed = passed;
        begin = systemMs - passed.getAsLong() / 1_000_000;
    }

    /**
     * Our clock: the system's at the beginning, and then the time that passes. A step of the system's clock does not
     * move it. Between the step and the next bounds, events would count as expired.
     */
    long ours() {
        return begin + passed.getAsLong() / 1_000_000;
    }

    /** Asked is 0 if no end below the record was asked for. */
    void observe(long appended, long polled, long asked) {
        double newLow = appended - polled;
        double newHigh = asked == 0 ? UNBOUNDED : appended + 1 - asked;
        double weaker = weaker(polled);
        double oldLow = low - weaker;
        double oldHigh = high + weaker;
        if (newLow > oldHigh || newHigh < oldLow) { // a clock was set: what was known before is void
            oldLow = -UNBOUNDED;
            oldHigh = UNBOUNDED;
        }
        low = Math.max(newLow, oldLow);
        high = Math.min(newHigh, oldHigh);
        at = polled;
    }

    private double weaker(long now) {
        return Math.max(now - at, 0) * DRIFT;
    }

    /** How far the brokers' clock is ahead. */
    long ahead() {
        double weaker = weaker(ours());
        return (long) Math.min(Math.max(0, low - weaker), high + weaker);
    }

    /** The brokers' time. */
    long now() {
        return ours() + ahead();
    }
}
