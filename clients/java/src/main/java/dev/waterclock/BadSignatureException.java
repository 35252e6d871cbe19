package dev.waterclock;

/** A webhook that was not signed with one of the secrets, or too long ago. */
public final class BadSignatureException extends WaterclockException {
    private static final long serialVersionUID = 1L;

    private final String reason;

    BadSignatureException(String reason, String detail) {
        super(detail);
        this.reason = reason;
    }

    /** bad_secret, missing_header, timestamp or no_match. */
    public String reason() {
        return reason;
    }
}
