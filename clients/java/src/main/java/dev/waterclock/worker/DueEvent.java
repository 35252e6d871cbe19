package dev.waterclock.worker;

import dev.waterclock.internal.Json;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * One record of a due topic. Receivers deduplicate by {@link #id}: every copy, attempt and retry has the same. Texts
 * that an event does not have are empty, and instants null.
 */
public final class DueEvent {
    /** A header that is not Waterclock's. */
    public record Header(String name, byte[] value) {
        public String text() {
            return new String(value, StandardCharsets.UTF_8);
        }
    }

    String id = "";
    String key = "";
    String occurrence = "";
    int attempt = 1;
    int step;
    int postponed;
    long revision;
    long expiresMs = NONE;
    long receiptByMs = NONE;
    Instant scheduled;
    Instant fired;
    Instant expires;
    Instant receiptBy;
    String localTime = "";
    String user = "";
    String source = "";
    String basis = "";
    String contentType = "";
    String traceparent = "";
    String tracestate = "";
    byte[] payload = {};
    byte[] recordKey = {};
    List<Header> headers = List.of();
    String topic = "";
    int partition;
    long offset;
    boolean high;

    volatile boolean cancelled;
    Object batch;

    static final long NONE = Long.MIN_VALUE;

    DueEvent() {}

    /** An event for tests of handlers: attempt 1, scheduled now. An id is {@code <trigger key>@<occurrence>#<step>}. */
    public static DueEvent of(String id, String payload) {
        int at = id.lastIndexOf('@');
        if (at <= 0) {
            throw new IllegalArgumentException("an id is <trigger key>@<occurrence>#<step>");
        }
        DueEvent e = new DueEvent();
        e.id = id;
        e.key = id.substring(0, at);
        e.occurrence = id.substring(at + 1).replaceFirst("#[0-9]+$", "");
        e.scheduled = Instant.now();
        e.fired = e.scheduled;
        e.payload = payload.getBytes(StandardCharsets.UTF_8);
        e.recordKey = e.key.getBytes(StandardCharsets.UTF_8);
        e.contentType = "application/json";
        return e;
    }

    /**
     * Starts an event for tests of handlers, with any of its fields: attempt 1 of step 0, scheduled and fired now, with
     * an empty payload.
     *
     * @param key the trigger key: the id, or tenant/id
     */
    public static Builder builder(String key) {
        return new Builder(key);
    }

    /** Makes an event for tests of handlers. A field that is not set is as {@link DueEvent#builder} says. */
    public static final class Builder {
        private final DueEvent made = new DueEvent();
        private final List<Header> headers = new ArrayList<>();

        private Builder(String key) {
            if (key.isEmpty()) {
                throw new IllegalArgumentException("the trigger key is empty");
            }
            made.key = key;
            made.recordKey = key.getBytes(StandardCharsets.UTF_8);
            made.revision = 1;
            made.source = "/waterclock/test";
            scheduled(Instant.now().truncatedTo(ChronoUnit.MILLIS));
        }

        public Builder payload(byte[] payload) {
            made.payload = payload.clone();
            return this;
        }

        /** A text, as JSON unless {@link #contentType} says otherwise. */
        public Builder payload(String payload) {
            if (made.contentType.isEmpty()) {
                made.contentType = "application/json";
            }
            return payload(payload.getBytes(StandardCharsets.UTF_8));
        }

        public Builder contentType(String type) {
            made.contentType = type;
            return this;
        }

        /** From 1. */
        public Builder attempt(int n) {
            made.attempt = n;
            return this;
        }

        /** Of an escalation, from 0. */
        public Builder step(int n) {
            made.step = n;
            return this;
        }

        /** How often this attempt was postponed. */
        public Builder postponed(int n) {
            made.postponed = n;
            return this;
        }

        /** Of the trigger. */
        public Builder revision(long n) {
            made.revision = n;
            return this;
        }

        /** The nominal instant, which is also the occurrence's name, and when the event was fired. */
        public Builder scheduled(Instant at) {
            made.scheduled = at;
            made.fired = at;
            return this;
        }

        public Builder fired(Instant at) {
            made.fired = at;
            return this;
        }

        public Builder expires(Instant at) {
            made.expires = at;
            return this;
        }

        public Builder receiptBy(Instant at) {
            made.receiptBy = at;
            return this;
        }

        public Builder localTime(String text) {
            made.localTime = text;
            return this;
        }

        public Builder user(String id) {
            made.user = id;
            return this;
        }

        public Builder traceparent(String text) {
            made.traceparent = text;
            return this;
        }

        public Builder tracestate(String text) {
            made.tracestate = text;
            return this;
        }

        /** The record key, where it is not the trigger key. */
        public Builder targetKey(String key) {
            made.recordKey = key.getBytes(StandardCharsets.UTF_8);
            return this;
        }

        /** It came by the lane for priority high. */
        public Builder high() {
            made.high = true;
            return this;
        }

        public Builder tags(Map<String, String> tags) {
            return header("wcx-tags", Json.write(tags));
        }

        /** One of {@link DueEvent#headers}, behind those before. */
        public Builder header(String name, String value) {
            headers.add(new Header(name, value.getBytes(StandardCharsets.UTF_8)));
            return this;
        }

        /** What a hook of {@link WorkerBuilder#onBatch} would have returned. */
        public Builder batch(Object value) {
            made.batch = value;
            return this;
        }

        /** Returns a new event each time. */
        public DueEvent build() {
            DueEvent e = new DueEvent();
            e.key = made.key;
            e.occurrence = NAME.format(made.scheduled);
            e.id = e.key + "@" + e.occurrence + "#" + made.step;
            e.attempt = made.attempt;
            e.step = made.step;
            e.postponed = made.postponed;
            e.revision = made.revision;
            e.scheduled = made.scheduled;
            e.fired = made.fired;
            e.expires = made.expires;
            e.expiresMs = made.expires == null ? NONE : made.expires.toEpochMilli();
            e.receiptBy = made.receiptBy;
            e.receiptByMs = made.receiptBy == null ? NONE : made.receiptBy.toEpochMilli();
            e.localTime = made.localTime;
            e.user = made.user;
            e.source = made.source;
            e.contentType = made.contentType;
            e.traceparent = made.traceparent;
            e.tracestate = made.tracestate;
            e.payload = made.payload;
            e.recordKey = made.recordKey;
            e.headers = List.copyOf(headers);
            e.high = made.high;
            e.batch = made.batch;
            return e;
        }

        private static final DateTimeFormatter NAME =
                DateTimeFormatter.ofPattern("uuuu-MM-dd'T'HH:mm:ss.SSS'Z'").withZone(ZoneOffset.UTC);
    }

    /** ce_id: the same for every copy, attempt and retry. */
    public String id() {
        return id;
    }

    /** The trigger key: the id, or tenant/id. */
    public String key() {
        return key;
    }

    /** The key without the tenant. */
    public String triggerId() {
        return key.substring(key.indexOf('/') + 1);
    }

    public String tenant() {
        int slash = key.indexOf('/');
        return slash < 0 ? "default" : key.substring(0, slash);
    }

    /**
     * The record key, of the event's tenant: a target_key may be any text, so else a tenant could make another's events
     * wait for its own.
     */
    String orderKey() {
        String key = recordKey.length == 0 ? this.key : new String(recordKey, StandardCharsets.ISO_8859_1);
        return tenant() + '\0' + key;
    }

    /** Its name within the id. */
    public String occurrence() {
        return occurrence;
    }

    /** From 1. */
    public int attempt() {
        return attempt;
    }

    /** Of an escalation, from 0. */
    public int step() {
        return step;
    }

    /** How often this attempt was postponed. */
    public int postponed() {
        return postponed;
    }

    /** Of the trigger, with which it fired. */
    public long revision() {
        return revision;
    }

    /** The nominal instant. */
    public Instant scheduled() {
        return scheduled;
    }

    /** When the engine emitted it. */
    public Instant fired() {
        return fired;
    }

    /** Past it the event is of no use. */
    public Instant expires() {
        return expires;
    }

    /** Until when the engine waits for the receipt. */
    public Instant receiptBy() {
        return receiptBy;
    }

    /** Such as {@code 2026-11-20T09:00:00[America/New_York]}; "" without a zone. */
    public String localTime() {
        return localTime;
    }

    public String user() {
        return user;
    }

    /** {@code /waterclock/<cluster>}. */
    public String source() {
        return source;
    }

    /** For diagnosis. */
    public String basis() {
        return basis;
    }

    /**
     * The offset before which the engine had read all receipts of this trigger's partition when it decided this event:
     * the fourth number of ce_wcbasis. 0 if it does not say.
     */
    long receiptsRead() {
        String[] numbers = basis.split("\\.", -1);
        if (numbers.length != 5 || !numbers[3].matches("[0-9]{1,18}")) {
            return 0;
        }
        return Long.parseLong(numbers[3]);
    }

    /** Of the payload. */
    public String contentType() {
        return contentType;
    }

    public String traceparent() {
        return traceparent;
    }

    public String tracestate() {
        return tracestate;
    }

    /** As registered, byte for byte. */
    public byte[] payload() {
        return payload;
    }

    public String payloadText() {
        return new String(payload, StandardCharsets.UTF_8);
    }

    /** The payload, which is JSON, as an object of a class; null if there is none. */
    public <T> T payload(Class<T> type) {
        return payload.length == 0 ? null : Json.read(payloadText(), type);
    }

    /** All other headers, in their order. */
    public List<Header> headers() {
        return headers;
    }

    /** The first of {@link #headers} with this name; null without one. */
    public String header(String name) {
        for (Header h : headers) {
            if (h.name().equals(name)) {
                return h.text();
            }
        }
        return null;
    }

    /** The trigger's tags. */
    public Map<String, String> tags() {
        Map<String, String> tags = new TreeMap<>();
        String text = header("wcx-tags");
        if (text != null) {
            try {
                Json.object(Json.read(text)).forEach((k, v) -> tags.put(k, String.valueOf(v)));
            } catch (IllegalArgumentException e) {
                return Map.of();
            }
        }
        return tags;
    }

    public String topic() {
        return topic;
    }

    public int partition() {
        return partition;
    }

    public long offset() {
        return offset;
    }

    /** target_key, else the trigger key. Events of one record key are handled in order. */
    public byte[] recordKey() {
        return recordKey;
    }

    /** It came by the lane for priority high. */
    public boolean high() {
        return high;
    }

    /**
     * The answer is no longer waited for: the time-out is over, the partition has moved, or the worker ends. The
     * handler's thread is interrupted then.
     */
    public boolean cancelled() {
        return cancelled;
    }

    /** What {@link WorkerBuilder#onBatch} returned for the batch of this event; null without a hook. */
    public Object batch() {
        return batch;
    }

    @Override
    public String toString() {
        return id + " attempt " + attempt;
    }
}
