package dev.waterclock.worker;

import java.util.concurrent.ThreadLocalRandom;

/**
 * The last receipts of one partition: what is in it is not handled a second time. It has hashes, in two generations of
 * {@code limit} each: the last {@code limit} receipts are known for certain, and at most twice as many are. One costs
 * 60 to 120 bytes. Two ids with one hash are improbable (10^-9 for a full partition); the engine's time-out brings the
 * event back then.
 */
final class Memory {
    /** The offset of a receipt for which nobody can say it. The engine has not read it, as far as we know. */
    static final long UNKNOWN = Long.MAX_VALUE;

    private final int limit;
    private final long seed = ThreadLocalRandom.current().nextLong();
    private Table now = new Table();
    private Table before = new Table();
    /** The offset to read on from. */
    long next;

    Memory(int limit) {
        this.limit = limit;
    }

    /** Stores a receipt that stands at this offset. */
    void add(String dueId, Result.Outcome outcome, int attempt, int postponed, long offset) {
        if (limit <= 0) {
            return;
        }
        long hash = hash(dueId);
        long value = answer(outcome, attempt, postponed);
        long newest = offset;
        long newestFinal = outcome.isFinal() ? offset : -1;
        Table table = tableOf(hash);
        if (table != null) {
            int at = table.find(hash);
            value = Math.max(value >> 2, table.values[at] >> 2) << 2 | (value | table.values[at]) & 2 | 1;
            newest = Math.max(newest, table.newest[at]);
            newestFinal = Math.max(newestFinal, table.newestFinal[at]);
        }
        now.put(hash, value, newest, newestFinal);
        if (now.size >= limit) {
            before = now;
            now = new Table();
        }
    }

    /**
     * Why an event is not handled; null if it is. A receipt that the engine had read when it decided the event is no
     * answer to it: its dead letter was redriven, or its trigger was forgotten and registered again with the same time.
     */
    String check(DueEvent e) {
        if (now.size == 0 && before.size == 0) {
            return null;
        }
        long hash = hash(e.id());
        Table table = tableOf(hash);
        if (table == null) {
            return null;
        }
        int at = table.find(hash);
        long read = e.receiptsRead();
        if (table.newest[at] < read) {
            return null;
        }
        boolean ended = table.newestFinal[at] >= read;
        return check(ended ? table.values[at] : table.values[at] & ~2, e);
    }

    private Table tableOf(long hash) {
        return now.has(hash) ? now : before.has(hash) ? before : null;
    }

    /** What a receipt answers: its round, and whether it is final. Never 0. */
    static long answer(Result.Outcome outcome, int attempt, int postponed) {
        return round(attempt, postponed) << 2 | (outcome.isFinal() ? 2 : 0) | 1;
    }

    /** Why an event needs no handling after this answer; null if it does. */
    static String check(long answer, DueEvent e) {
        if ((answer & 2) != 0) {
            return "final";
        }
        return round(e.attempt(), e.postponed()) <= answer >> 2 ? "answered" : null;
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

    /** Hash to what the receipts of an id answer, and the offsets of the newest one and of the newest final one. */
    private static final class Table {
        private long[] keys = new long[64];
        private long[] values = new long[64];
        private long[] newest = new long[64];
        private long[] newestFinal = new long[64]; // -1 if there is none
        private int size;

        boolean has(long key) {
            return keys[find(key)] != 0;
        }

        void put(long key, long value, long offset, long finalOffset) {
            int at = find(key);
            if (keys[at] == 0) {
                keys[at] = key;
                size++;
            }
            values[at] = value;
            newest[at] = offset;
            newestFinal[at] = finalOffset;
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
            long[] oldNewest = newest;
            long[] oldNewestFinal = newestFinal;
            keys = new long[oldKeys.length * 2];
            values = new long[oldKeys.length * 2];
            newest = new long[oldKeys.length * 2];
            newestFinal = new long[oldKeys.length * 2];
            for (int i = 0; i < oldKeys.length; i++) {
                if (oldKeys[i] != 0) {
                    int at = find(oldKeys[i]);
                    keys[at] = oldKeys[i];
                    values[at] = oldValues[i];
                    newest[at] = oldNewest[i];
                    newestFinal[at] = oldNewestFinal[i];
                }
            }
        }
    }
}
