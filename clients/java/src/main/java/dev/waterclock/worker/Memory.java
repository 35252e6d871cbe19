package dev.waterclock.worker;

import java.util.concurrent.ThreadLocalRandom;

/**
 * The last receipts of one partition: what is in it is not handled a second time. It has hashes, in two generations of
 * {@code limit} each: the last {@code limit} receipts are known for certain, and at most twice as many are. One costs
 * 100 to 200 bytes. Two ids with one hash are improbable (10^-9 for a full partition); the engine's time-out brings the
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
        Known known = new Known(round(attempt, postponed), offset, outcome);
        Known old = find(hash);
        now.put(hash, old == null ? known : old.and(known));
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
        Known known = now.size == 0 && before.size == 0 ? null : find(hash(e.id()));
        return known == null ? null : known.check(e);
    }

    private Known find(long hash) {
        Known known = now.get(hash);
        return known != null ? known : before.get(hash);
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

    /**
     * What is known of one id. Of the receipts that the engine had not read when it decided an event, the highest round
     * counts. The highest of all may be one that it had read, of a life that has ended. Then the newest one counts.
     */
    private record Known(long highest, long highestAt, long newest, long newestAt, long finalAt) {
        Known(long round, long offset, Result.Outcome outcome) {
            this(round, offset, round, offset, outcome.isFinal() ? offset : -1);
        }

        /** What is known after one more receipt. */
        Known and(Known one) {
            return placed(one.newest, one.newestAt).with(one);
        }

        /** Those of unknown offset, of this round or earlier ones, stand at this offset, at the latest. */
        private Known placed(long round, long offset) {
            return newestAt != UNKNOWN || round < newest ? this
                    : new Known(highest, Math.min(highestAt, offset), newest, offset, Math.min(finalAt, offset));
        }

        private Known with(Known one) {
            boolean higher = one.highest > highest || one.highest == highest && one.highestAt > highestAt;
            boolean newer = one.newestAt > newestAt || one.newestAt == newestAt && one.newest > newest;
            return new Known(higher ? one.highest : highest, higher ? one.highestAt : highestAt,
                    newer ? one.newest : newest, newer ? one.newestAt : newestAt, Math.max(finalAt, one.finalAt));
        }

        String check(DueEvent e) {
            long read = e.receiptsRead();
            if (finalAt >= read) {
                return "final";
            }
            long asked = round(e.attempt(), e.postponed());
            boolean answered = highestAt >= read && asked <= highest || newestAt >= read && asked <= newest;
            return answered ? "answered" : null;
        }
    }

    /** Hash to what is known, without an object for each. */
    private static final class Table {
        private static final int WIDTH = 6; // the hash, and the fields of Known
        private long[] cells = new long[64 * WIDTH];
        private int size;

        Known get(long key) {
            int at = find(key);
            return cells[at] == 0 ? null
                    : new Known(cells[at + 1], cells[at + 2], cells[at + 3], cells[at + 4], cells[at + 5]);
        }

        void put(long key, Known k) {
            int at = find(key);
            if (cells[at] == 0) {
                size++;
            }
            cells[at] = key;
            cells[at + 1] = k.highest;
            cells[at + 2] = k.highestAt;
            cells[at + 3] = k.newest;
            cells[at + 4] = k.newestAt;
            cells[at + 5] = k.finalAt;
            if (size * 2 > cells.length / WIDTH) {
                grow();
            }
        }

        private int find(long key) {
            int mask = cells.length / WIDTH - 1;
            int at = (int) key & mask;
            while (cells[at * WIDTH] != 0 && cells[at * WIDTH] != key) {
                at = at + 1 & mask;
            }
            return at * WIDTH;
        }

        private void grow() {
            long[] old = cells;
            cells = new long[old.length * 2];
            for (int i = 0; i < old.length; i += WIDTH) {
                if (old[i] != 0) {
                    System.arraycopy(old, i, cells, find(old[i]), WIDTH);
                }
            }
        }
    }
}
