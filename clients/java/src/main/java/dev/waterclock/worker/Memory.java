package dev.waterclock.worker;

import java.util.concurrent.ThreadLocalRandom;

/**
 * The last receipts of one partition: what is in it is not handled a second time. It has hashes, in two generations of
 * {@code limit} each: the last {@code limit} receipts are known for certain, and at most twice as many are. One costs
 * 32 to 64 bytes. Two ids with one hash are improbable (10^-9 for a full partition); the engine's time-out brings the
 * event back then.
 */
final class Memory {
    private final int limit;
    private final long seed = ThreadLocalRandom.current().nextLong();
    private Table now = new Table();
    private Table before = new Table();
    /** The offset to read on from. */
    long next;

    Memory(int limit) {
        this.limit = limit;
    }

    void add(String dueId, Result.Outcome outcome, int attempt, int postponed) {
        if (limit <= 0) {
            return;
        }
        long hash = hash(dueId);
        long old = now.get(hash);
        if (old == 0) {
            old = before.get(hash);
        }
        long round = Math.max(round(attempt, postponed), old >> 2);
        now.put(hash, round << 2 | (outcome.isFinal() ? 2 : 0) | old & 2 | 1);
        if (now.size >= limit) {
            before = now;
            now = new Table();
        }
    }

    /** Why an event is not handled; null if it is. */
    String check(DueEvent e) {
        if (now.size == 0 && before.size == 0) {
            return null;
        }
        long hash = hash(e.id());
        long old = now.get(hash);
        if (old == 0) {
            old = before.get(hash);
        }
        if (old == 0) {
            return null;
        }
        if ((old & 2) != 0) {
            return "final";
        }
        return round(e.attempt(), e.postponed()) <= old >> 2 ? "answered" : null;
    }

    int size() {
        return now.size + before.size;
    }

    private static long round(int attempt, int postponed) {
        return (long) Math.min(attempt, Decoder.MAX_COUNT) << 24 | Math.min(postponed, Decoder.MAX_COUNT);
    }

    /** FNV-1a from a random beginning, mixed as murmur3 does. Never 0. */
    private long hash(String text) {
        long h = seed;
        for (int i = 0; i < text.length(); i++) {
            h = (h ^ text.charAt(i)) * 0x100000001b3L;
            h ^= h >>> 47;
        }
        h = (h ^ h >>> 33) * 0xff51afd7ed558ccdL;
        h = (h ^ h >>> 33) * 0xc4ceb9fe1a85ec53L;
        h ^= h >>> 33;
        return h == 0 ? 1 : h;
    }

    /** Hash to value, both longs; a value is never 0. */
    private static final class Table {
        private long[] keys = new long[64];
        private long[] values = new long[64];
        private int size;

        long get(long key) {
            int at = find(key);
            return keys[at] == 0 ? 0 : values[at];
        }

        void put(long key, long value) {
            int at = find(key);
            if (keys[at] == 0) {
                keys[at] = key;
                size++;
            }
            values[at] = value;
            if (size * 2 > keys.length) {
                grow();
            }
        }

        private int find(long key) {
            int mask = keys.length - 1;
            int at = (int) key & mask;
            while (keys[at] != 0 && keys[at] != key) {
                at = at + 1 & mask;
            }
            return at;
        }

        private void grow() {
            long[] oldKeys = keys;
            long[] oldValues = values;
            keys = new long[oldKeys.length * 2];
            values = new long[oldKeys.length * 2];
            for (int i = 0; i < oldKeys.length; i++) {
                if (oldKeys[i] != 0) {
                    int at = find(oldKeys[i]);
                    keys[at] = oldKeys[i];
                    values[at] = oldValues[i];
                }
            }
        }
    }
}
