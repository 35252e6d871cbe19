package dev.waterclock;

import java.util.Map;

/** A rule of which the next occurrences are asked for, without registering it. */
public final class Preview extends TimeFields<Preview> {
    /** Exclusive; the default is now. */
    public Preview after(String after) {
        return set("after", after);
    }

    public Preview n(int n) {
        return set("n", n);
    }

    /** The fields by their names in the API. */
    public static Preview of(Map<String, ?> fields) {
        Preview p = new Preview();
        p.fields.putAll(fields);
        return p;
    }
}
