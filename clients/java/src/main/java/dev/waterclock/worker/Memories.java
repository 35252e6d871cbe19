package dev.waterclock.worker;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.utils.Utils;

/** The memory of each partition of the receipts topic whose events are here. The state guards it. */
final class Memories {
    private final int limit;
    private final boolean byKey;
    private final Map<Integer, Memory> all = new HashMap<>();
    private int partitions; // of the receipts topic, once known

    Memories(int limit, boolean byKey) {
        this.limit = limit;
        this.byKey = byKey;
    }

    /** The one that an event's receipts are in; null if it is turned off. */
    Memory of(DueEvent e) {
        return all.get(partitionOf(e));
    }

    private int partitionOf(DueEvent e) {
        if (!byKey) {
            return e.partition();
        }
        if (partitions == 0) {
            return -1;
        }
        int hash = Utils.murmur2(e.key().getBytes(StandardCharsets.UTF_8));
        return Utils.toPositive(hash) % partitions;
    }

    /** A receipt of ours stands. Of one in another partition, which the engine forwards, the offset says nothing. */
    void add(DueEvent e, Result.Outcome outcome, int partition, long offset) {
        Memory memory = of(e);
        if (memory != null) {
            boolean known = partition == partitionOf(e) && offset >= 0;
            memory.add(e.id(), outcome, e.attempt(), e.postponed(), known ? offset : Memory.UNKNOWN);
        }
    }

    /** Begins those of some partitions of the due topic; returns from where each is to be read. */
    Map<Integer, Long> begin(Set<Integer> due, int receiptPartitions) {
        partitions = receiptPartitions;
        Set<Integer> wanted = new HashSet<>(due);
        for (int num = 0; byKey && num < receiptPartitions; num++) {
            wanted.add(num);
        }
        Map<Integer, Long> from = new HashMap<>();
        wanted.forEach(num -> from.put(num, all.computeIfAbsent(num, n -> new Memory(limit)).next));
        return from;
    }

    void learn(int partition, Receipts.Seen seen, long offset) {
        Memory memory = all.get(partition);
        if (memory != null) {
            memory.add(seen.dueId(), seen.outcome(), seen.attempt(), seen.postponed(), offset);
        }
    }

    /** The receipts topic was made anew: what is known of it is of another life. */
    void renew(int partition) {
        all.computeIfPresent(partition, (num, old) -> new Memory(limit));
    }

    /** All of it was made anew. */
    void renew() {
        all.replaceAll((num, old) -> new Memory(limit));
    }

    void readUpTo(Map<Integer, Long> ends) {
        ends.forEach((num, end) -> {
            Memory memory = all.get(num);
            if (memory != null) {
                memory.next = end;
            }
        });
    }

    /** Drops those of which no partition is left. */
    void keep(Set<Integer> used) {
        if (!byKey) {
            all.keySet().retainAll(used);
        }
    }
}
