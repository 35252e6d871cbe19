package dev.waterclock;

/** A worker ended before all that it had begun was finished. It is delivered again. */
public final class UnfinishedException extends WaterclockException {
    private static final long serialVersionUID = 1L;

    public UnfinishedException(String message) {
        super(message);
    }
}
