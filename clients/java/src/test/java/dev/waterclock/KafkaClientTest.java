package dev.waterclock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.ClusterAuthorizationException;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.RecordBatchTooLargeException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.errors.SslAuthenticationException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.junit.jupiter.api.Test;

/** What the brokers refuse is known not to be in the log, and has the error of the same refusal by HTTP. */
class KafkaClientTest {
    @Test
    void refusals() {
        Map<RuntimeException, Class<? extends ApiException>> cases = new LinkedHashMap<>();
        cases.put(new TopicAuthorizationException("waterclock.commands"), ApiException.Forbidden.class);
        cases.put(new ClusterAuthorizationException("no"), ApiException.Forbidden.class);
        cases.put(new SaslAuthenticationException("wrong password"), ApiException.Unauthenticated.class);
        cases.put(new SslAuthenticationException("handshake"), ApiException.Unauthenticated.class);
        cases.put(new RecordTooLargeException("large"), ApiException.TooLarge.class);
        cases.put(new RecordBatchTooLargeException("large"), ApiException.TooLarge.class);
        cases.put(new KafkaException("the producer has failed", new ClusterAuthorizationException("no")),
                ApiException.Forbidden.class);
        cases.forEach((cause, type) -> {
            assertRefused(type, cause, true);
            assertRefused(type, cause, false);
        });
    }

    /** Any other error leaves it open whether the command is in the log. */
    @Test
    void otherErrors() {
        ApiException e = thrownOf(new InvalidConfigurationException("min.insync.replicas"), false);
        assertEquals(ApiException.Unavailable.class, e.getClass());
        assertEquals(true, e.maybeApplied());
    }

    private static void assertRefused(Class<? extends ApiException> type, RuntimeException cause, boolean atOnce) {
        ApiException e = thrownOf(cause, atOnce);
        assertEquals(type, e.getClass(), () -> cause + ": " + e);
        assertFalse(e.maybeApplied());
        assertEquals(0, e.status());
        assertSame(cause, e.getCause());
    }

    /** The error of a send that fails at once, or with the answer of the brokers. */
    private static ApiException thrownOf(RuntimeException cause, boolean atOnce) {
        MockProducer<byte[], byte[]> producer = producer(atOnce, cause);
        Deque<Producer<byte[], byte[]>> made = new ArrayDeque<>(List.of(producer, producer(atOnce, cause)));
        try (KafkaClient client = new KafkaClient(KafkaClient.builder(), made::remove)) {
            Thread answers = new Thread(() -> {
                while (!atOnce && !producer.errorNext(cause)) {
                    Thread.onSpinWait();
                }
            });
            answers.start();
            ApiException e = assertThrows(ApiException.class, () -> client.cancel("a"));
            join(answers);
            return e;
        }
    }

    private static MockProducer<byte[], byte[]> producer(boolean atOnce, RuntimeException cause) {
        MockProducer<byte[], byte[]> producer = new MockProducer<>(atOnce, null, new ByteArraySerializer(),
                new ByteArraySerializer());
        producer.sendException = atOnce ? cause : null;
        return producer;
    }

    /** A producer whose producer id was refused once throws for ever. */
    @Test
    void producerThatHasEnded() {
        MockProducer<byte[], byte[]> ended = producer(true, new KafkaException("we are in an error state"));
        MockProducer<byte[], byte[]> next = producer(true, null);
        Deque<Producer<byte[], byte[]>> made = new ArrayDeque<>(List.of(ended, next));
        try (KafkaClient client = new KafkaClient(KafkaClient.builder(), made::remove)) {
            client.cancel("a");
            client.cancel("b");
            assertEquals(2, next.history().size());
            assertTrue(ended.closed());
        }
        assertTrue(next.closed());
    }

    private static void join(Thread t) {
        try {
            t.join();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }
}
