package dev.waterclock;

import java.util.Map;
import java.util.function.Consumer;

/** How dead letters are tried again. Each method returns a changed copy. */
public final class RedriveOptions {
    /** At the server's rate, 100 a second. */
    public static final RedriveOptions NONE = new RedriveOptions(null, null, false, null, null);

    private final Double rate; // null: the server's
    private final String note;
    private final boolean includeExpired;
    private final String cursor;
    final Consumer<Redrive> progress; // null: nobody listens

    private RedriveOptions(Double rate, String note, boolean includeExpired, String cursor,
            Consumer<Redrive> progress) {
        this.rate = rate;
        this.note = note;
        this.includeExpired = includeExpired;
        this.cursor = cursor;
        this.progress = progress;
    }

    /**
     * So many dead letters a second. Of one trigger at most 128 can be under way: with more, give a rate at which their
     * receipts keep pace.
     */
    public RedriveOptions rate(double perSecond) {
        return new RedriveOptions(perSecond, note, includeExpired, cursor, progress);
    }

    /** Why, in at most 512 bytes: the detail of the event of each. */
    public RedriveOptions note(String text) {
        return new RedriveOptions(rate, text, includeExpired, cursor, progress);
    }

    /** Also what is past its expires_at. */
    public RedriveOptions includeExpired() {
        return new RedriveOptions(rate, note, true, cursor, progress);
    }

    /** Where an earlier redrive with the same filter ended: {@link Redrive#cursor}. Empty: from the beginning. Only with a filter. */
    public RedriveOptions cursor(String at) {
        return new RedriveOptions(rate, note, includeExpired, at, progress);
    }

    /**
     * Is called about once a second, on the caller's thread, with how far it is, and in the end with the result. What
     * it throws stops the redrive.
     */
    public RedriveOptions progress(Consumer<Redrive> listener) {
        return new RedriveOptions(rate, note, includeExpired, cursor, listener);
    }

    Map<String, Object> into(Map<String, Object> body) {
        if (rate != null) {
            body.put("rate", rate);
        }
        if (note != null) {
            body.put("note", note);
        }
        if (includeExpired) {
            body.put("include_expired", true);
        }
        if (cursor != null && !cursor.isEmpty()) {
            body.put("cursor", cursor);
        }
        return body;
    }
}
