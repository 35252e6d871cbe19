package dev.waterclock.worker;

import java.util.concurrent.ThreadLocalRandom;

/**
 * The last receipts of one partition: what is in it is not handled a second time. It has hashes, in two generations of
 * {@code limit} each: the last {@code limit} receipts are known for certain, and at most twice as many are. One costs
 * 40 to 80 bytes. Two ids with one hash are improbable (10^-9 for a full partition); the engine's time-out brings the
 * event back then.
 */
final class Memory {
    /**
     * How much later than a receipt an event has to be appended, so that the receipt cannot be its answer. Brokers'
     * clocks differ by less, and so does the time that the engine needs to read a receipt. A ce_id gets new events
     * after its receipt if its dead letter is redriven, or if a forgotten trigger is registered again with the same
     * time.
     */
    private static final long ANSWER_MARGIN_S = 60;

    private final int limit;
    private final long seed = ThreadLocalRandom.current().nextLong();
    private Table now = new Table();
    private Table before = new Table();
    /** The offset to read on from. */
    long next;

    Memory(int limit) {
        this.limit = limit;
    }

    /** Stores a receipt that the brokers appended at this time; 0 if it is unknown. */
    void add(String dueId, Result.Outcome outcome, int attempt, int postponed, long atMs) {
        if (limit <= 0) {
            return;
        }
        long hash = hash(dueId);
        long value = answer(outcome, attempt, postponed);
        long second = Math.max(atMs, 0) / 1000;
        Table table = tableOf(hash);
        if (table != null && !isBefore(table.time(hash), second)) {
            long old = table.get(hash);
            value = Math.max(value >> 2, old >> 2) << 2 | (value | old) & 2 | 1;
            second = Math.max(second, table.time(hash));
        }
        now.put(hash, value, second);
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
        Table table = tableOf(hash);
        if (table == null || isBefore(table.time(hash), Math.max(e.appendedMs, 0) / 1000)) {
            return null;
        }
        return check(table.get(hash), e);
    }

    /** Whether a time is so much later than a receipt that it belongs to a later life or redrive. */
    private static boolean isBefore(long receipt, long second) {
        return receipt > 0 && second > receipt + ANSWER_MARGIN_S;
    }

    private Table tableOf(long hash) {
        return now.get(hash) != 0 ? now : before.get(hash) != 0 ? before : null;
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

    /** Hash to value and time; a value is never 0. */
    private static final class Table {
        private long[] keys = new long[64];
        private long[] values = new long[64];
        private int[] times = new int[64]; // seconds, unsigned
        private int size;

        long get(long key) {
            int at = find(key);
            return keys[at] == 0 ? 0 : values[at];
        }

        long time(long key) {
            return Integer.toUnsignedLong(times[find(key)]);
        }

        void put(long key, long value, long second) {
            int at = find(key);
            if (keys[at] == 0) {
                keys[at] = key;
                size++;
            }
            values[at] = value;
            times[at] = (int) second;
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
            int[] oldTimes = times;
            keys = new long[oldKeys.length * 2];
            values = new long[oldKeys.length * 2];
            times = new int[oldKeys.length * 2];
            for (int i = 0; i < oldKeys.length; i++) {
                if (oldKeys[i] != 0) {
                    int at = find(oldKeys[i]);
                    keys[at] = oldKeys[i];
                    values[at] = oldValues[i];
                    times[at] = oldTimes[i];
                }
            }
        }
    }
}
