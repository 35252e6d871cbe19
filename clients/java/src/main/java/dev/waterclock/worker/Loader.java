package dev.waterclock.worker;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Reads the last receipts of partitions. */
final class Loader implements AutoCloseable {
    private static final Duration WITHIN = Duration.ofSeconds(10);
    private static final Duration POLL = Duration.ofMillis(100);
    private static final Duration STALL = Duration.ofSeconds(30);

    /** Takes a record that was read. */
    interface Sink {
        void take(int partition, byte[] key, byte[] value, long offset);

        /** A partition ends before the offset from which it was to be read: the topic was made anew. */
        void renew(int partition);
    }

    private final String topic;
    private final KafkaConsumer<byte[], byte[]> consumer;

    Loader(String topic, Map<String, Object> kafka) {
        this.topic = topic;
        Map<String, Object> config = new HashMap<>(kafka);
        config.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
        config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        // Receipts are in transactions only where the engine forwards one, and that happens later if it was aborted.
        config.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_uncommitted");
        config.put(ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG, 100);
        config.put(ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG, false); // or to ask for a topic would make it
        config.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, 5000);
        consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** Whether there is such a topic. The consumer can say, so no admin client is needed. */
    boolean exists(String name) {
        List<PartitionInfo> infos = consumer.partitionsFor(name, WITHIN);
        return infos != null && !infos.isEmpty();
    }

    /**
     * Reads the last {@code limit} records of each partition, from the given offsets on, and returns where each ended.
     * The reading ends early once stopped.
     */
    Map<Integer, Long> read(Map<Integer, Long> from, int limit, Sink sink, BooleanSupplier stopped) {
        List<TopicPartition> all = new ArrayList<>();
        from.keySet().forEach(p -> all.add(new TopicPartition(topic, p)));
        Map<TopicPartition, Long> starts = consumer.beginningOffsets(all, WITHIN);
        Map<TopicPartition, Long> ends = consumer.endOffsets(all, WITHIN);
        Map<Integer, Long> result = new HashMap<>();
        Map<TopicPartition, Long> first = new HashMap<>();
        for (TopicPartition tp : all) {
            long end = ends.get(tp);
            long known = from.get(tp.partition());
            if (known > end) {
                sink.renew(tp.partition());
            }
            long begin = Math.max(Math.max(starts.get(tp), end - limit), known <= end ? known : 0);
            result.put(tp.partition(), end);
            if (begin < end) {
                first.put(tp, begin);
            }
        }
        consumer.assign(first.keySet());
        first.forEach(consumer::seek);
        Set<TopicPartition> open = new HashSet<>(first.keySet());
        long last = System.nanoTime();
        while (!open.isEmpty() && !stopped.getAsBoolean()) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(POLL);
            for (ConsumerRecord<byte[], byte[]> r : records) {
                sink.take(r.partition(), r.key(), r.value(), r.offset());
            }
            open.removeIf(tp -> consumer.position(tp, WITHIN) >= ends.get(tp));
            if (!records.isEmpty()) {
                last = System.nanoTime();
            } else if (System.nanoTime() - last > STALL.toNanos()) {
                throw new TimeoutException("no record of " + topic + " for " + STALL);
            }
        }
        consumer.assign(List.of());
        return result;
    }

    @Override
    public void close() {
        consumer.close();
    }
}
