package dev.waterclock;

import java.time.Instant;

/** Chooses dead letters. An empty one chooses all open ones. Null leaves a filter out; an empty text is refused. */
public final class DeadLetterFilter {
    final Query query = new Query();

    private DeadLetterFilter set(String name, String value) {
        query.filter(name, value);
        return this;
    }

    public DeadLetterFilter triggerId(String id) {
        return set("trigger_id", id);
    }

    public DeadLetterFilter channel(String channel) {
        return set("channel", channel);
    }

    public DeadLetterFilter code(String code) {
        return set("code", code);
    }

    /** The origin of a callback, such as {@code https://example.com}. */
    public DeadLetterFilter endpoint(String origin) {
        return set("endpoint", origin);
    }

    /** Failed at or after. */
    public DeadLetterFilter from(Instant from) {
        return set("from", from.toString());
    }

    /** Failed before. */
    public DeadLetterFilter to(Instant to) {
        return set("to", to.toString());
    }

    /** {@code open} (the default), {@code redriven}, {@code resolved} or {@code all}; for lists. */
    public DeadLetterFilter status(String status) {
        return set("status", status);
    }

    public DeadLetterFilter cursor(String cursor) {
        query.set("cursor", cursor); // an empty one is the first page
        return this;
    }

    public DeadLetterFilter limit(int limit) {
        return set("limit", Integer.toString(limit));
    }
}
