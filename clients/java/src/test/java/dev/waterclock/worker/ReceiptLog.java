package dev.waterclock.worker;

import dev.waterclock.Dev;
import dev.waterclock.internal.Json;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** What stands on a receipts topic. */
final class ReceiptLog {
    private ReceiptLog() {}

    /** How many receipts each due event of a channel has, once so many due events have one and no more come. */
    static Map<String, Integer> of(String brokers, String prefix, String channel, int want) {
        Map<String, Integer> found = new TreeMap<>();
        Map<String, Object> config = Map.of("bootstrap.servers", brokers, "group.id",
                prefix + "test-" + System.nanoTime(), "auto.offset.reset", "earliest");
        try (KafkaConsumer<String, String> c = new KafkaConsumer<>(config, new StringDeserializer(),
                new StringDeserializer())) {
            c.subscribe(List.of(prefix + "receipts"));
            Dev.await("the receipts are there", () -> {
                add(found, channel, c.poll(Duration.ofMillis(200)));
                return found.size() >= want;
            });
            while (add(found, channel, c.poll(Duration.ofSeconds(1)))) {
                // the rest of it
            }
        }
        return found;
    }

    private static boolean add(Map<String, Integer> found, String channel, ConsumerRecords<String, String> records) {
        records.forEach(r -> {
            Map<String, Object> value = Json.object(Json.read(r.value()));
            if (value.get("channel").equals(channel)) {
                if (!"delivered".equals(value.get("outcome"))) {
                    throw new AssertionError(r.value());
                }
                found.merge(Json.text(value, "due_id"), 1, Integer::sum);
            }
        });
        return !records.isEmpty();
    }
}
