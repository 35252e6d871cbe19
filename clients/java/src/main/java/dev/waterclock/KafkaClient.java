package dev.waterclock;

import dev.waterclock.internal.Json;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.RecordBatchTooLargeException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes commands to topic {@code <prefix>commands}. A call returns once the brokers have the command; what the engine
 * says to it, refusals included, stands on the event log and on {@code <prefix>rejected}. Many threads may share it.
 */
public final class KafkaClient implements Commands<KafkaClient.Written>, AutoCloseable {
    /** Where a command stands. */
    public record Written(String topic, int partition, long offset) {}

    private static final long RENEW_NANOS = TimeUnit.SECONDS.toNanos(1); // least time between two replacements

    private final String topic;
    private final String tenant;
    private final Duration timeout;
    private final Supplier<Producer<byte[], byte[]>> make;
    private volatile Producer<byte[], byte[]> producer;
    private long renewed = System.nanoTime() - RENEW_NANOS;
    private boolean closed;

    /** Tests bring producers of their own. */
    KafkaClient(Builder b, Supplier<Producer<byte[], byte[]>> make) {
        topic = b.prefix + "commands";
        tenant = b.tenant;
        timeout = b.timeout;
        this.make = make;
        producer = make.get();
    }

    private static Producer<byte[], byte[]> producer(Builder b) {
        Map<String, Object> config = new HashMap<>();
        config.put(ProducerConfig.CLIENT_ID_CONFIG, "waterclock-java");
        config.put(ProducerConfig.ENABLE_METRICS_PUSH_CONFIG, false);
        config.putAll(b.kafka);
        config.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, b.brokers);
        config.put(ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, true);
        config.put(ProducerConfig.ACKS_CONFIG, "all");
        int ms = (int) Math.min(Math.max(b.timeout.toMillis(), 1), Integer.MAX_VALUE);
        config.put(ProducerConfig.MAX_BLOCK_MS_CONFIG, ms);
        config.put(ProducerConfig.LINGER_MS_CONFIG, 0);
        config.put(ProducerConfig.REQUEST_TIMEOUT_MS_CONFIG, ms);
        config.put(ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG, ms);
        return new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    }

    public static Builder builder() {
        return new Builder();
    }

    @Override
    public Written send(Command command) {
        ProducerRecord<byte[], byte[]> record = record(command);
        try {
            RecordMetadata at = begin(record).get(timeout.toMillis() + 1000, TimeUnit.MILLISECONDS);
            return new Written(at.topic(), at.partition(), at.offset());
        } catch (ExecutionException e) {
            throw failed(e.getCause());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw failed(e);
        } catch (TimeoutException | KafkaException e) {
            throw failed(e);
        }
    }

    /**
     * Hands over a record. A producer whose producer id was refused once takes none any more, whatever becomes of the
     * brokers: it throws at once, and is replaced.
     */
    private Future<RecordMetadata> begin(ProducerRecord<byte[], byte[]> record) {
        Producer<byte[], byte[]> with = producer;
        try {
            return with.send(record);
        } catch (KafkaException | IllegalStateException e) { // the latter if another thread has replaced it
            if (e instanceof InterruptException || !renew(with)) {
                throw e;
            }
            return producer.send(record);
        }
    }

    private synchronized boolean renew(Producer<byte[], byte[]> old) {
        if (producer != old) {
            return true;
        }
        if (closed || System.nanoTime() - renewed < RENEW_NANOS) {
            return false;
        }
        renewed = System.nanoTime();
        producer = make.get();
        old.close(Duration.ZERO); // it has nothing any more
        return true;
    }

    /** The record that a command is; it is refused if the engine would refuse its key. */
    ProducerRecord<byte[], byte[]> record(Command command) {
        byte[] key = command.key(tenant);
        command.checkRecord();
        byte[] value;
        try {
            value = Json.write(command.object(true)).getBytes(StandardCharsets.UTF_8);
        } catch (IllegalArgumentException e) {
            throw ApiException.refuse("invalid", "payload", e.getMessage());
        }
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, key, value);
        command.options.headers.forEach(h -> record.headers().add(h.name(), h.value()));
        return record;
    }

    private static ApiException failed(Throwable cause) {
        String code = refusal(cause);
        if (code != null) {
            return ApiException.of(0, code, "the brokers refused the command: " + cause, cause).noted(1, false);
        }
        boolean maybe = !(cause instanceof InterruptException);
        return ApiException.of(0, "the brokers did not acknowledge the command: " + cause, cause).noted(1, maybe);
    }

    /**
     * The code of an error after which the record is known not to be in the log; null for any other. A producer that
     * such an error has ended throws it as the cause of another one.
     */
    private static String refusal(Throwable error) {
        for (Throwable e = error; e != null; e = e.getCause()) {
            if (e instanceof RecordTooLargeException || e instanceof RecordBatchTooLargeException) {
                return "too_large";
            }
            if (e instanceof AuthorizationException) {
                return "forbidden";
            }
            if (e instanceof AuthenticationException) {
                return "unauthenticated";
            }
            if (e instanceof InvalidRecordException) {
                return "invalid";
            }
        }
        return null;
    }

    /** Waits for what is under way. */
    @Override
    public void close() {
        synchronized (this) {
            closed = true;
        }
        producer.close(timeout);
    }

    /** Options of a {@link KafkaClient}. */
    public static final class Builder {
        private String brokers = "127.0.0.1:9092";
        private String prefix = "waterclock.";
        private String tenant = "";
        private Duration timeout = Duration.ofSeconds(30);
        private final Map<String, Object> kafka = new HashMap<>();

        private Builder() {}

        /** Addresses to start from, separated by commas. The default is 127.0.0.1:9092. */
        public Builder brokers(String addresses) {
            brokers = addresses;
            return this;
        }

        /** The engine's topics.prefix. The default is {@code waterclock.}. */
        public Builder prefix(String prefix) {
            this.prefix = prefix;
            return this;
        }

        /** It is put before ids. The default is the default tenant. */
        public Builder tenant(String tenant) {
            this.tenant = tenant;
            return this;
        }

        /** How long a call waits for the brokers. The default is 30 s. */
        public Builder timeout(Duration timeout) {
            this.timeout = timeout;
            return this;
        }

        /** Options of the Kafka producer, such as TLS and SASL. */
        public Builder kafka(Map<String, ?> config) {
            kafka.putAll(config);
            return this;
        }

        public KafkaClient build() {
            return new KafkaClient(this, () -> producer(this));
        }
    }
}
