package dev.waterclock;

/** The base of all exceptions of this library. */
public class WaterclockException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    public WaterclockException(String message) {
        super(message);
    }

    public WaterclockException(String message, Throwable cause) {
        super(message, cause);
    }
}
