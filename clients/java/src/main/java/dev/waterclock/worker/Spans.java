package dev.waterclock.worker;

/** Calls a tracer. What that throws ends no thread and changes no answer, whatever it is. */
final class Spans {
    private static final Tracer.End NONE = (outcome, code, detail) -> { };

    private final Tracer tracer; // null: nobody traces
    private final Throttle failing;

    Spans(Tracer tracer, Throttle failing) {
        this.tracer = tracer;
        this.failing = failing;
    }

    /** Starts the span of an attempt. */
    Tracer.End start(DueEvent event) {
        if (tracer == null) {
            return NONE;
        }
        Tracer.End end = null;
        try {
            end = tracer.start(event);
        } catch (Throwable e) {
            failed(e);
        } finally {
            Thread.interrupted(); // an interrupt is for the handler, which has not begun
        }
        return end == null ? NONE : end;
    }

    /** Ends a span with the result, or with null if the attempt was abandoned. */
    void end(Tracer.End end, Result r) {
        if (end == NONE) {
            return;
        }
        try {
            if (r == null) {
                end.end(Tracer.ABANDONED, "", "");
            } else {
                end.end(r.outcome().text, Receipts.clip(r.code(), Receipts.MAX_CODE),
                        Receipts.clip(r.detail(), Receipts.MAX_DETAIL));
            }
        } catch (Throwable e) {
            failed(e);
        } finally {
            Thread.interrupted(); // the handler has ended
        }
    }

    private void failed(Throwable e) {
        failing.warn("the tracer threw: " + Handlers.text(e));
    }
}
