package dev.waterclock.worker;

import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;

/** One assigned partition of the due topic or its lane. A later assignment makes a new one. */
final class Part {
    /** One due event, from the poll until its receipt is acknowledged. */
    static final class Item {
        final Part part;
        final long offset;
        final int size;
        final DueEvent event; // null: the record is garbled
        final ByteBuffer key;
        boolean done;
        Thread thread; // that runs the handler
        long deadline;
        boolean timedOut;
        RuntimeException hookFailed;

        Item(Part part, long offset, int size, DueEvent event) {
            this.part = part;
            this.offset = offset;
            this.size = size;
            this.event = event;
            key = event == null ? null : ByteBuffer.wrap(event.recordKey());
        }
    }

    final TopicPartition tp;
    final boolean high;
    boolean loaded; // the memory is read
    boolean gone; // revoked, or the worker ends: nothing new starts
    boolean paused;
    List<Item> held = new ArrayList<>(); // polled before the memory was read
    final Map<ByteBuffer, ArrayDeque<Item>> chains = new HashMap<>(); // behind the event of that key in hand
    final Set<Item> running = new HashSet<>();
    final ArrayDeque<Item> open = new ArrayDeque<>(); // in the order of offsets; the first one is not done
    int records; // polled and not done
    long bytes;
    int pending; // receipts that are not acknowledged
    long next = -1; // up to here everything is done
    long committed = -1;
    long end; // of its log, which was asked for ...
    long asked; // ... at this time of ours; 0 if never

    Part(TopicPartition tp, boolean high) {
        this.tp = tp;
        this.high = high;
    }

    void add(Item item) {
        open.add(item);
        records++;
        bytes += item.size;
    }

    /** Nothing more has to be done for it. Offsets rise, not always by 1. */
    void finish(Item item) {
        item.done = true;
        records--;
        bytes -= item.size;
        while (!open.isEmpty() && open.peek().done) {
            next = open.poll().offset + 1;
        }
    }

    /** Which event is next: of one record key one after the other, the high lane first. */
    static final class Queue {
        private static final ArrayDeque<Item> NONE = new ArrayDeque<>(0);

        private final ArrayDeque<Item> high = new ArrayDeque<>();
        private final ArrayDeque<Item> normal = new ArrayDeque<>();

        void add(Item item) {
            Map<ByteBuffer, ArrayDeque<Item>> chains = item.part.chains;
            ArrayDeque<Item> chain = chains.putIfAbsent(item.key, NONE);
            if (chain == null) {
                lane(item).add(item);
            } else if (chain == NONE) {
                chain = new ArrayDeque<>(4);
                chain.add(item);
                chains.put(item.key, chain);
            } else {
                chain.add(item);
            }
        }

        private ArrayDeque<Item> lane(Item item) {
            return item.part.high ? high : normal;
        }

        Item take() {
            Item item = high.poll();
            while (item != null && item.part.gone) {
                item = high.poll();
            }
            if (item != null) {
                return item;
            }
            item = normal.poll();
            while (item != null && item.part.gone) {
                item = normal.poll();
            }
            return item;
        }

        /** The handler has ended, or was not called: the next event of its key is ready. */
        void finish(Item item) {
            ArrayDeque<Item> chain = item.part.chains.get(item.key);
            if (chain == null || chain.isEmpty()) {
                item.part.chains.remove(item.key);
            } else {
                lane(item).add(chain.poll());
            }
        }

        int size() {
            return high.size() + normal.size();
        }
    }
}
