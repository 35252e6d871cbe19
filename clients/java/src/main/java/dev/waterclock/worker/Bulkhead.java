package dev.waterclock.worker;

import java.util.function.Function;

/**
 * Bounds how many events of one group are handled at a time, so that a slow receiver does not take the concurrency of
 * all. Groups take turns.
 *
 * <pre>{@code
 * Bulkhead.by(DueEvent::tenant).inFlight(20).waiting(100).overflow(e -> Result.postpone(Duration.ofMinutes(1), "busy"))
 * }</pre>
 *
 * @param group names the group of an event, such as tenant and host; it must be fast. An empty name is a group like
 *     any other, and that of an event for which it throws
 * @param inFlight of one group are handled at a time; 100 by default
 * @param waiting more of one group wait for that; what comes beyond is answered with overflow. 200 by default
 * @param overflow the answer to what finds no room: beyond waiting, or behind an event of the same key that has been
 *     handled for over a second while the buffer of their partition is full. It runs on the thread that polls, and must
 *     be fast. Null, the default: events of a full group wait, and as they fill the buffer of a partition they delay
 *     others on it
 */
public record Bulkhead(Function<DueEvent, String> group, int inFlight, int waiting,
        Function<DueEvent, Result> overflow) {
    /** The defaults. */
    public static Bulkhead by(Function<DueEvent, String> group) {
        return new Bulkhead(group, 100, 200, null);
    }

    public Bulkhead inFlight(int n) {
        return new Bulkhead(group, n, waiting, overflow);
    }

    public Bulkhead waiting(int n) {
        return new Bulkhead(group, inFlight, n, overflow);
    }

    public Bulkhead overflow(Function<DueEvent, Result> answer) {
        return new Bulkhead(group, inFlight, waiting, answer);
    }
}
