package dev.waterclock.worker;

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
    final TopicPartition tp;
    final int lane;
    boolean loaded; // the memory is read
    boolean gone; // revoked, or the worker ends: nothing new starts
    boolean paused;
    List<Item> held = new ArrayList<>(); // polled before the memory was read
    final Map<String, Item> tails = new HashMap<>(); // the last event of each order key that is not handled yet
    final Set<Item> running = new HashSet<>();
    final ArrayDeque<Item> open = new ArrayDeque<>(); // in the order of offsets; the first one is not done
    int records; // polled and not done
    long bytes;
    int pending; // receipts that are not acknowledged
    long next = -1; // up to here everything is done
    long committed = -1;
    long end; // of its log, which was asked for ...
    long asked; // ... at this time of ours; 0 if never

    Part(TopicPartition tp, int lane) {
        this.tp = tp;
        this.lane = lane;
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
}
