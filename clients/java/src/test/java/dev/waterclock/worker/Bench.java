package dev.waterclock.worker;

import dev.waterclock.Dev;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * How fast a worker is with a handler that does nothing: {@code Bench BROKERS EVENTS}. It fills topics of its own, with
 * prefix {@code bench<ms>.}, and measures from the first receipt on until all offsets are committed. Without brokers it
 * starts a {@code waterclock dev}.
 */
final class Bench {
    private static final int PARTITIONS = 4;
    private static final String PREFIX = "bench" + System.currentTimeMillis() + ".";
    private static final String TOPIC = PREFIX + "due.noop";

    private Bench() {}

    public static void main(String[] args) throws Exception {
        String brokers = args.length > 0 ? args[0] : Dev.shared().kafka;
        int n = args.length > 1 ? Integer.parseInt(args[1]) : 300_000;
        fill(brokers, n);
        Worker worker = Worker.builder("noop", e -> Result.delivered()).brokers(brokers)
                .prefix(PREFIX).group(PREFIX + "bench")
                .build();
        Thread thread = new Thread(worker::run);
        thread.start();
        while (delivered(worker) == 0) {
            Thread.sleep(1);
        }
        long before = delivered(worker);
        long cpu = cpu();
        long begin = System.nanoTime();
        long end = begin;
        while (delivered(worker) < n || worker.stats().get("pending") > 0) {
            Thread.sleep(5);
            end = System.nanoTime();
        }
        worker.close();
        double seconds = (end - begin) / 1e9;
        long handled = n - before;
        System.out.printf("{\"events\":%d,\"seconds\":%.2f,\"events_per_s\":%.0f,\"cpu_us_per_event\":%.1f,"
                + "\"committed\":%d}%n", handled, seconds, handled / seconds, (cpu() - cpu) / 1e3 / handled,
                committed(brokers));
        System.exit(0);
    }

    private static long delivered(Worker worker) {
        return worker.stats().getOrDefault("delivered", 0L);
    }

    private static long cpu() {
        java.lang.management.OperatingSystemMXBean os =
                java.lang.management.ManagementFactory.getOperatingSystemMXBean();
        return ((com.sun.management.OperatingSystemMXBean) os).getProcessCpuTime();
    }

    private static void fill(String brokers, int n) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", brokers, "linger.ms", 20, "batch.size", 256 << 10);
        try (Admin admin = Admin.create(config)) {
            admin.createTopics(List.of(new NewTopic(TOPIC, PARTITIONS, (short) 1),
                    new NewTopic(PREFIX + "receipts", PARTITIONS, (short) 1))).all().get(60, TimeUnit.SECONDS);
        } catch (ExecutionException e) {
            System.err.println("made all the same by embedded brokers: " + e.getCause());
        }
        String at = Instant.now().toString().substring(0, 19) + ".000Z";
        try (KafkaProducer<byte[], byte[]> p = new KafkaProducer<>(config, new ByteArraySerializer(),
                new ByteArraySerializer())) {
            List<Future<?>> sent = new ArrayList<>(n);
            for (int i = 0; i < n; i++) {
                String key = "hold-" + i;
                ProducerRecord<byte[], byte[]> r =
                        new ProducerRecord<>(TOPIC, bytes(key), bytes("{\"holdId\":\"" + key + "\"}"));
                header(r, "ce_specversion", "1.0");
                header(r, "ce_id", key + "@" + at + "#0");
                header(r, "ce_source", "/waterclock/bench");
                header(r, "ce_type", "waterclock.due.v1");
                header(r, "ce_subject", key);
                header(r, "ce_time", at);
                header(r, "ce_wcfired", at);
                header(r, "ce_wcrevision", "1");
                header(r, "ce_wcattempt", "1");
                header(r, "ce_wcstep", "0");
                header(r, "content-type", "application/json");
                sent.add(p.send(r));
            }
            for (Future<?> f : sent) {
                f.get(60, TimeUnit.SECONDS);
            }
        }
    }

    private static void header(ProducerRecord<byte[], byte[]> r, String name, String value) {
        r.headers().add(name, bytes(value));
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static long committed(String brokers) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", brokers))) {
            Map<TopicPartition, OffsetAndMetadata> offsets =
                    admin.listConsumerGroupOffsets(PREFIX + "bench.noop").partitionsToOffsetAndMetadata().get();
            return offsets.values().stream().mapToLong(OffsetAndMetadata::offset).sum();
        }
    }
}
