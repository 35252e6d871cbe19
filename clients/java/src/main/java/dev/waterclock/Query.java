package dev.waterclock;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The query of a URL. */
final class Query {
    private final Map<String, List<String>> values = new LinkedHashMap<>();

    Query set(String name, String value) {
        if (value == null || value.isEmpty()) {
            values.remove(name);
        } else {
            values.put(name, List.of(value));
        }
        return this;
    }

    /** As set, of what chooses: an empty text, as of a variable that is not set, must not choose all. */
    Query filter(String name, String value) {
        if (value != null && value.isEmpty()) {
            throw ApiException.refuse("invalid", name, name + " is empty: leave it out");
        }
        return set(name, value);
    }

    Query set(String name, List<String> all) {
        values.put(name, List.copyOf(all));
        return this;
    }

    Query copy() {
        Query q = new Query();
        q.values.putAll(values);
        return q;
    }

    /** The first values as the fields of a JSON object. */
    Map<String, Object> fields() {
        Map<String, Object> m = new LinkedHashMap<>();
        values.forEach((name, all) -> m.put(name, all.get(0)));
        return m;
    }

    @Override
    public String toString() {
        List<String> parts = new ArrayList<>();
        values.forEach((name, all) -> all.forEach(v -> parts.add(escape(name) + "=" + escape(v))));
        return parts.isEmpty() ? "" : "?" + String.join("&", parts);
    }

    /** The one spelling: all but unreserved characters in percents. An id may end like a verb. */
    static String escape(String text) {
        StringBuilder b = new StringBuilder();
        for (byte c : text.getBytes(StandardCharsets.UTF_8)) {
            if (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
                    || c > 0 && "-._~".indexOf(c) >= 0) {
                b.append((char) c);
            } else {
                b.append(String.format("%%%02X", c & 0xff));
            }
        }
        return b.toString();
    }
}
