package dev.waterclock;

import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Chooses triggers. An empty one chooses all. Null leaves a filter out; an empty text is refused. */
public final class Filter {
    final Query query = new Query();

    /** One of these states. */
    public Filter state(String... states) {
        query.set("state", String.join(",", states));
        return this;
    }

    /** The list is then by next due time, else by id. */
    public Filter userId(String userId) {
        query.filter("user_id", userId);
        return this;
    }

    public Filter channel(String channel) {
        query.filter("channel", channel);
        return this;
    }

    public Filter tags(Map<String, String> tags) {
        List<String> all = new ArrayList<>();
        new TreeMap<>(tags).forEach((k, v) -> all.add(k + ":" + v)); // a cursor belongs to the filters as written
        query.set("tag", all);
        return this;
    }

    /** Due at or after. */
    public Filter from(Instant from) {
        query.set("from", from.toString());
        return this;
    }

    /** Due before. */
    public Filter to(Instant to) {
        query.set("to", to.toString());
        return this;
    }

    public Filter cursor(String cursor) {
        query.set("cursor", cursor);
        return this;
    }

    /** Of a page. */
    public Filter limit(int limit) {
        query.set("limit", Integer.toString(limit));
        return this;
    }
}
