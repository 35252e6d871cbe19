package dev.waterclock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.MockProducer;
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
        try (MockProducer<byte[], byte[]> producer = new MockProducer<>(atOnce, null, new ByteArraySerializer(),
                new ByteArraySerializer())) {
            if (atOnce) {
                producer.sendException = cause;
            }
            KafkaClient client = new KafkaClient(KafkaClient.builder(), producer);
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

    private static void join(Thread t) {
        try {
            t.join();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }
}
