package dev.waterclock.worker;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Which event is handled next. It has no clock, no lock and no thread.
 *
 * <pre>
 * order key  one after the other, in the order of offsets
 * lane       high before normal
 * group      in turns; at most inFlight of one run at a time
 * </pre>
 */
final class Queue {
    static final int HIGH = 0;
    static final int NORMAL = 1;
    private static final int LANES = 2;

    /** Events that share a bulkhead. */
    static final class Group {
        final String name;
        int running;
        int waiting;
        final List<ArrayDeque<Item>> ready = List.of(new ArrayDeque<>(), new ArrayDeque<>());
        final boolean[] queued = new boolean[LANES]; // in turns

        Group(String name) {
            this.name = name;
        }
    }

    private final Bulkhead bulkhead; // null: all are one group without a bound
    private final int inFlight;
    private final int maxWait; // of one group beyond inFlight; the rest overflows
    private final Map<String, Group> groups = new HashMap<>();
    private final List<ArrayDeque<Group>> turns = List.of(new ArrayDeque<>(), new ArrayDeque<>());
    private List<Item> overflow = new ArrayList<>();
    private int waiting;

    Queue(Bulkhead bulkhead) {
        this.bulkhead = bulkhead;
        inFlight = bulkhead == null ? Integer.MAX_VALUE : bulkhead.inFlight();
        maxWait = bulkhead == null || bulkhead.overflow() == null ? Integer.MAX_VALUE : bulkhead.waiting();
    }

    /** Ready events, those of full groups among them. */
    int size() {
        return waiting;
    }

    /** Whether take would probably return an event. */
    boolean canStart() {
        return !turns.get(HIGH).isEmpty() || !turns.get(NORMAL).isEmpty();
    }

    /** Takes an event in, behind those with its order key. */
    void add(Item item) {
        Item tail = item.part.tails.put(item.orderKey, item);
        if (tail != null) {
            tail.nextSame = item;
        } else {
            makeReady(item);
        }
    }

    private void makeReady(Item item) {
        Group g = groupFor(item);
        g.waiting++;
        waiting++;
        g.ready.get(item.part.lane).add(item);
        giveTurn(g, item.part.lane);
        trim(g);
    }

    private Group groupFor(Item item) {
        item.group = groups.computeIfAbsent(nameOf(item.event), Group::new);
        return item.group;
    }

    /** The group of an event; of one over which the caller's code throws, the nameless one. */
    private String nameOf(DueEvent e) {
        if (bulkhead == null) {
            return "";
        }
        try {
            String name = bulkhead.group().apply(e);
            return name == null ? "" : name;
        } catch (RuntimeException x) {
            return "";
        }
    }

    private void giveTurn(Group g, int lane) {
        if (!g.queued[lane] && !g.ready.get(lane).isEmpty() && g.running < inFlight) {
            g.queued[lane] = true;
            turns.get(lane).add(g);
        }
    }

    /** Takes the newest events out of a full group that has no room for them, those of the last lane first. */
    private void trim(Group g) {
        if (g.running < inFlight) {
            return;
        }
        for (int lane = LANES - 1; lane >= 0; lane--) {
            while (g.waiting > maxWait && !g.ready.get(lane).isEmpty()) {
                overflow.add(g.ready.get(lane).pollLast());
                g.waiting--;
                waiting--;
                g.running++; // finish takes it back
            }
        }
    }

    /** The event to handle next; null if there is none, or none may run. */
    Item take() {
        for (int lane = 0; lane < LANES; lane++) {
            for (Group g = turns.get(lane).poll(); g != null; g = turns.get(lane).poll()) {
                g.queued[lane] = false;
                if (g.ready.get(lane).isEmpty() || g.running >= inFlight) {
                    continue; // what was ready is gone, or the other lane took the room
                }
                Item item = g.ready.get(lane).poll();
                g.waiting--;
                waiting--;
                g.running++;
                giveTurn(g, lane);
                trim(g);
                return item;
            }
        }
        return null;
    }

    /** An event from take or takeOverflow is answered, or was not handled: the next one of its order key may start. */
    void finish(Item item) {
        Group g = item.group;
        Item next = item.nextSame;
        item.nextSame = null;
        g.running--;
        if (!item.part.gone) {
            if (next != null) {
                makeReady(next);
            } else {
                item.part.tails.remove(item.orderKey, item);
            }
        }
        for (int lane = 0; lane < LANES; lane++) {
            giveTurn(g, lane);
        }
        drop(g);
    }

    /** Forgets a group that has nothing. */
    private void drop(Group g) {
        if (bulkhead != null && g.running == 0 && g.waiting == 0) {
            groups.remove(g.name, g);
        }
    }

    /**
     * Takes out what waits for an event of the same order key whose handler was called before a moment and has not
     * ended. Many of them behind one that hangs would fill the buffer of their partition, and hold back all others.
     */
    void shed(Part p, long before) {
        for (Item head : p.running) {
            Item next = head.nextSame;
            if (next == null || head.started == 0 || head.started - before >= 0) {
                continue;
            }
            head.nextSame = null;
            p.tails.put(head.orderKey, head);
            while (next != null) {
                Item item = next;
                next = item.nextSame;
                item.nextSame = null;
                groupFor(item).running++; // finish takes it back
                overflow.add(item);
            }
        }
    }

    /** What has to be answered without the handler. */
    List<Item> takeOverflow() {
        List<Item> items = overflow;
        if (!items.isEmpty()) {
            overflow = new ArrayList<>();
        }
        return items;
    }

    /** Takes out what waits of partitions that are gone. */
    void purge() {
        for (Group g : List.copyOf(groups.values())) {
            int before = g.waiting;
            g.waiting = 0;
            for (ArrayDeque<Item> lane : g.ready) {
                lane.removeIf(item -> item.part.gone);
                g.waiting += lane.size();
            }
            waiting -= before - g.waiting;
            drop(g);
        }
    }
}
