package dev.waterclock;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** Conditions and the like of one write. Each method returns a copy with one more. */
public final class Options {
    /** No conditions. */
    public static final Options NONE = new Options(null, false, null, false, null, null, List.of());

    /** A header of the command's record by Kafka. */
    record Header(String name, byte[] value) {}

    final Long ifRevision;
    final boolean ifAbsent;
    final String idempotencyKey;
    final boolean async;
    final String correlationId;
    final String note;
    final List<Header> headers;

    private Options(Long ifRevision, boolean ifAbsent, String idempotencyKey, boolean async, String correlationId,
            String note, List<Header> headers) {
        this.ifRevision = ifRevision;
        this.ifAbsent = ifAbsent;
        this.idempotencyKey = idempotencyKey;
        this.async = async;
        this.correlationId = correlationId;
        this.note = note;
        this.headers = headers;
    }

    /** Only if the trigger is at this revision. It makes a repeat of most writes safe. */
    public Options ifRevision(long revision) {
        return new Options(revision, ifAbsent, idempotencyKey, async, correlationId, note, headers);
    }

    /** Only if there is no such trigger; for schedule. */
    public Options ifAbsent() {
        return new Options(ifRevision, true, idempotencyKey, async, correlationId, note, headers);
    }

    /** The same key means the same request; for schedule. It is safe over restarts of your program too. */
    public Options idempotencyKey(String key) {
        return new Options(ifRevision, ifAbsent, key, async, correlationId, note, headers);
    }

    /** Does not wait for the engine's decision; by HTTP. Of a batch, all commands have it or none. */
    public Options async() {
        return new Options(ifRevision, ifAbsent, idempotencyKey, true, correlationId, note, headers);
    }

    /** A cancel by HTTP has none. */
    public Options correlationId(String id) {
        return new Options(ifRevision, ifAbsent, idempotencyKey, async, id, note, headers);
    }

    /** Why, in at most 512 bytes: the detail of the event about the write; that of a run is its firing. */
    public Options note(String text) {
        return new Options(ifRevision, ifAbsent, idempotencyKey, async, correlationId, text, headers);
    }

    /** A header of the record, which travels to the due event; by Kafka. */
    public Options recordHeader(String name, byte[] value) {
        List<Header> more = new ArrayList<>(headers);
        more.add(new Header(name, value.clone()));
        return new Options(ifRevision, ifAbsent, idempotencyKey, async, correlationId, note, List.copyOf(more));
    }

    public Options recordHeader(String name, String value) {
        return recordHeader(name, value.getBytes(StandardCharsets.UTF_8));
    }
}
