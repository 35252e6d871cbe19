package dev.waterclock.worker;

import java.time.Duration;

/**
 * Takes the numbers of one worker. Calls come from many threads and must be fast; what a method throws is logged.
 * {@link PrometheusText} is one without a library. With Micrometer or OpenTelemetry, each method is a line of yours.
 */
public interface Metrics {
    /** A due event has its result, and how long the handler took. */
    default void handled(Result.Outcome outcome, String code, Duration took) {}

    /** One was not handled and gets no receipt: {@code final}, {@code answered} or {@code receipt_by}. */
    default void skipped(String reason) {}

    /** One whose handler did not finish before its partition moved or the worker ended. It is delivered again. */
    default void abandoned() {}

    /** A record is not a due event; the header is the one at fault, a name of the contract. */
    default void garbled(String header) {}

    /** The brokers have acknowledged a receipt, and how long that took. */
    default void receiptWritten(Duration took) {}

    /** A try to write a receipt failed. It is tried anew. */
    default void receiptFailed() {}

    /** A commit of offsets failed. */
    default void commitFailed() {}

    /** What is in memory, about every commit interval. */
    default void load(Load load) {}

    /**
     * What a worker holds.
     *
     * @param running handlers that run
     * @param ready events that wait for a handler and could run
     * @param buffered events in memory, running and ready ones among them
     * @param bytes of these
     * @param pending receipts that are not acknowledged
     * @param assigned partitions
     * @param paused of these: full, not fetched
     * @param held of these: the receipts topic is not read yet
     * @param clockAhead by how much the brokers' clock is ahead of ours
     */
    record Load(int running, int ready, int buffered, long bytes, int pending, int assigned, int paused, int held,
            Duration clockAhead) {}
}
