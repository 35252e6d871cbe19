package dev.waterclock.worker;

/** One due event, from the poll until its receipt is acknowledged. */
final class Item {
    final Part part;
    final long offset;
    final int size;
    final DueEvent event; // null: the record is garbled
    final String orderKey;
    Item nextSame; // the next event of the same order key
    Queue.Group group;
    Result answer; // without the handler: it has expired, or onBatch threw
    long started; // when its handler was called, System.nanoTime(); 0 if it was not
    boolean done;
    Unacked unacked; // its receipt, which the brokers do not have yet

    // Guarded by this item: an interrupt meets the handler it is meant for, or nobody.
    private Thread thread;
    private long deadline;
    private boolean abandoned;

    Item(Part part, long offset, int size, DueEvent event) {
        this.part = part;
        this.offset = offset;
        this.size = size;
        this.event = event;
        orderKey = event == null ? "" : event.orderKey();
    }

    /** The handler is about to run on this thread. */
    synchronized void begin(long handlerTimeoutNanos) {
        deadline = System.nanoTime() + handlerTimeoutNanos;
        if (event.cancelled) {
            Thread.currentThread().interrupt(); // abandoned before it began
        }
        thread = Thread.currentThread();
    }

    /** The handler has ended. True if nobody waits for its answer any more. */
    boolean end() {
        boolean gone;
        synchronized (this) {
            thread = null;
            gone = abandoned;
        }
        Thread.interrupted(); // it was meant for the handler
        return gone;
    }

    /** Whether nobody waits for its answer any more. */
    synchronized boolean abandoned() {
        return abandoned;
    }

    /** Interrupts a handler that has had its time, once. */
    synchronized void interruptIfLate(long now) {
        if (thread != null && !event.cancelled && now - deadline > 0) {
            event.cancelled = true;
            thread.interrupt();
        }
    }

    /** The partition has moved, or the worker ends: the answer is no longer waited for. */
    synchronized void abandon() {
        abandoned = true;
        event.cancelled = true;
        if (thread != null) {
            thread.interrupt();
        }
    }
}
