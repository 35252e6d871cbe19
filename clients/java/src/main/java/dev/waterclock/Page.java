package dev.waterclock;

import java.util.Iterator;
import java.util.List;

/**
 * A part of a list. A page may be short and still have a next one.
 *
 * @param nextCursor of the next page; null on the last one
 */
public record Page<T>(List<T> items, String nextCursor) implements Iterable<T> {
    @Override
    public Iterator<T> iterator() {
        return items.iterator();
    }
}
