package dev.waterclock.worker;

/**
 * Starts the span of each attempt, for a tracing library. {@link DueEvent#traceparent} is its parent. It is called on
 * the handler's thread, right before the handler. What it throws is logged. An event that is answered without its
 * handler, such as one that has expired, has no span.
 */
@FunctionalInterface
public interface Tracer {
    /** An outcome for spans only: the partition moved, or the worker ended. The event comes again. */
    String ABANDONED = "abandoned";

    /** What it returns is called once, after the handler. Null: there is nothing to end. */
    End start(DueEvent event);

    /** Ends the span of an attempt. */
    @FunctionalInterface
    interface End {
        /** The outcome, code and detail are those of the receipt; the outcome may be {@link #ABANDONED}, too. */
        void end(String outcome, String code, String detail);
    }
}
