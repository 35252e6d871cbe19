package dev.waterclock.worker;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.DelayQueue;
import java.util.concurrent.Delayed;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes receipts until they stand. The producer is idempotent and never transactional: an open transaction would hold
 * back the engine. Buffer bounds how many receipts there are.
 */
final class ReceiptWriter {
    private static final Duration BACKOFF = Duration.ofSeconds(1);
    private static final int LINGER_MS = 2;
    private static final int BATCH_BYTES = 128 << 10;
    private static final int MAX_BLOCK_MS = 30_000;

    private final String topic;
    private final Supplier<Producer<byte[], byte[]>> make;
    private final Throttle throttle;
    private final DelayQueue<Failed> failed = new DelayQueue<>();
    private final Thread thread;
    private final Meter meter;
    private volatile Producer<byte[], byte[]> producer;
    private volatile Producer<byte[], byte[]> broken; // it fails every record from now on
    private volatile boolean closed;

    ReceiptWriter(String topic, Map<String, Object> kafka, Meter meter, Throttle throttle) {
        this(topic, producers(kafka), meter, throttle);
    }

    ReceiptWriter(String topic, Supplier<Producer<byte[], byte[]>> make, Meter meter, Throttle throttle) {
        this.topic = topic;
        this.make = make;
        this.meter = meter;
        this.throttle = throttle;
        producer = make.get();
        thread = new Thread(this::serve, "waterclock-receipts");
        thread.setDaemon(true);
        thread.start();
    }

    private static Supplier<Producer<byte[], byte[]>> producers(Map<String, Object> kafka) {
        Map<String, Object> config = new HashMap<>();
        config.put(ProducerConfig.LINGER_MS_CONFIG, LINGER_MS);
        config.put(ProducerConfig.BATCH_SIZE_CONFIG, BATCH_BYTES);
        config.put(ProducerConfig.MAX_BLOCK_MS_CONFIG, MAX_BLOCK_MS);
        config.putAll(kafka);
        config.put(ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, true);
        config.put(ProducerConfig.ACKS_CONFIG, "all");
        return () -> new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /** A receipt that failed, to be written anew. */
    private record Failed(byte[] key, byte[] value, Acked acked, long begin, long at) implements Delayed {
        @Override
        public long getDelay(TimeUnit unit) {
            return unit.convert(at - System.nanoTime(), TimeUnit.NANOSECONDS);
        }

        @Override
        public int compareTo(Delayed o) {
            return Long.compare(getDelay(TimeUnit.NANOSECONDS), o.getDelay(TimeUnit.NANOSECONDS));
        }
    }

    /** Is called once the brokers have a receipt. The offset is -1 if they do not say it. */
    interface Acked {
        void at(int partition, long offset);
    }

    /** Acked is called, on another thread, once the brokers have it. */
    void write(byte[] key, byte[] value, Acked acked) {
        write(key, value, acked, System.nanoTime());
    }

    private void write(byte[] key, byte[] value, Acked acked, long begin) {
        Producer<byte[], byte[]> with = producer;
        try {
            with.send(new ProducerRecord<>(topic, key, value), (at, e) -> {
                if (e == null) {
                    meter.receiptWritten(System.nanoTime() - begin);
                    acked.at(at.partition(), at.offset());
                } else {
                    failed(with, e, new Failed(key, value, acked, begin, again()));
                }
            });
        } catch (KafkaException | IllegalStateException e) {
            failed(with, e, new Failed(key, value, acked, begin, again()));
        }
    }

    private static long again() {
        return System.nanoTime() + BACKOFF.toNanos();
    }

    private void failed(Producer<byte[], byte[]> with, Exception e, Failed receipt) {
        if (closed) {
            return;
        }
        meter.receiptFailed();
        throttle.warn("cannot write receipts to " + topic + "; retrying, and committing no offsets meanwhile: " + e);
        if (!(e instanceof RetriableException)) {
            broken = with;
        }
        failed.add(receipt);
    }

    private void serve() {
        while (!closed) {
            try {
                Failed f = failed.take();
                if (renewed()) {
                    write(f.key, f.value, f.acked, f.begin);
                } else {
                    failed.add(new Failed(f.key, f.value, f.acked, f.begin, again()));
                }
            } catch (InterruptedException e) {
                return;
            }
        }
    }

    /** Replaces a producer that is broken. False if it cannot be replaced now. */
    private boolean renewed() {
        Producer<byte[], byte[]> old = producer;
        if (broken != old) {
            return true;
        }
        try {
            producer = make.get();
        } catch (KafkaException e) {
            throttle.warn("cannot make a producer of receipts: " + e);
            return false;
        }
        old.close(Duration.ZERO);
        return true;
    }

    /** What is not written is lost; its offset was not committed. */
    void close() {
        closed = true;
        thread.interrupt();
        producer.close(Duration.ZERO);
    }
}
