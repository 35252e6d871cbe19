package dev.waterclock.worker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

/** What a worker knows, without I/O. */
class PureTest {
    private static DueEvent event(String id, int attempt) {
        ConsumerRecord<byte[], byte[]> r = new ConsumerRecord<>("t", 0, 0, "k".getBytes(), new byte[0]);
        r.headers().add("ce_type", "waterclock.due.v1".getBytes()).add("ce_id", (id + "@1#0").getBytes())
                .add("ce_subject", id.getBytes()).add("ce_time", "2026-11-30T14:00:00.000Z".getBytes())
                .add("ce_wcattempt", Integer.toString(attempt).getBytes());
        try {
            return Decoder.decode(r, false);
        } catch (Decoder.Garbled e) {
            throw new AssertionError(e);
        }
    }

    /** The last receipts are known for certain, and at most twice as many are. */
    @Test
    void memoryIsBounded() {
        Memory m = new Memory(1000);
        for (int i = 0; i < 10_000; i++) {
            m.add("k" + i + "@1#0", Result.Outcome.DELIVERED, 1, 0);
            assertTrue(m.size() <= 2000);
            if (i >= 999) {
                assertEquals("final", m.check(event("k" + (i - 999), 1)));
            }
        }
        assertNull(m.check(event("k0", 1)));
    }

    /** A later receipt of a lower round takes nothing back. */
    @Test
    void memoryKeepsTheHighestRound() {
        Memory m = new Memory(2);
        m.add("a@1#0", Result.Outcome.RETRY, 2, 1);
        m.add("b@1#0", Result.Outcome.RETRY, 1, 0); // a new generation
        m.add("a@1#0", Result.Outcome.RETRY, 1, 0);
        assertEquals("answered", m.check(event("a", 2)));
        assertNull(m.check(event("a", 3)));
    }

    /** A clock of ours that is wrong is corrected by what is appended after a question. */
    @Test
    void clock() {
        BrokerClock c = new BrokerClock();
        assertEquals(5_000, c.now(5_000));
        c.observe(110_000, 100_000, 0); // appended in our future: the brokers are ahead by 10 s at least
        assertEquals(110_000, c.now(100_000));
        c.observe(111_000, 101_100, 101_000); // and at most by 10.001 s
        long now = c.now(102_000);
        assertTrue(now >= 111_990 && now <= 112_010, "it is " + now);
        c.observe(150_000, 200_000, 199_990); // a clock was set: the brokers are behind now
        assertTrue(c.now(200_000) <= 150_020, "it is " + c.now(200_000));
    }

    /** Offsets may be committed up to the first record that is not done. */
    @Test
    void offsets() {
        Part p = new Part(new TopicPartition("t", 0), false);
        Part.Item[] items = new Part.Item[3];
        for (int i = 0; i < 3; i++) {
            items[i] = new Part.Item(p, 10 + 2 * i, 100, event("k", 1));
            p.add(items[i]);
        }
        p.finish(items[1]);
        assertEquals(-1, p.next);
        p.finish(items[0]);
        assertEquals(13, p.next);
        p.finish(items[2]);
        assertEquals(15, p.next);
        assertEquals(0, p.records);
        assertEquals(0, p.bytes);
    }

    /** A handler is tested without a broker. */
    @Test
    void handlerAlone() {
        Handler h = e -> e.payload(Integer.class) > 1 ? Result.delivered() : Result.fail("too_few", "");
        assertEquals(Result.delivered(), Worker.call(h, DueEvent.of("acme/pills@2026-11-20T09:00:00#0", "2")));
        DueEvent one = DueEvent.of("acme/pills@2026-11-20T09:00:00#0", "1");
        assertEquals("too_few", Worker.call(h, one).code());
        assertEquals("acme pills 2026-11-20T09:00:00", one.tenant() + " " + one.triggerId() + " " + one.occurrence());
    }

    /** One key after the other; the high lane first. */
    @Test
    void queue() {
        Part low = new Part(new TopicPartition("t", 0), false);
        Part high = new Part(new TopicPartition("t.high", 0), true);
        Part.Queue q = new Part.Queue();
        Part.Item a = new Part.Item(low, 1, 1, event("a", 1));
        Part.Item b = new Part.Item(low, 2, 1, event("b", 1)); // the same record key
        Part.Item c = new Part.Item(high, 1, 1, event("c", 1));
        q.add(a);
        q.add(b);
        q.add(c);
        assertEquals(c, q.take());
        assertEquals(a, q.take());
        assertNull(q.take());
        q.finish(a);
        assertEquals(b, q.take());
        q.finish(b);
        assertTrue(low.chains.isEmpty());
    }
}
