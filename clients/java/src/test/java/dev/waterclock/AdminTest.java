package dev.waterclock;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The broker inside dev answers Kafka's own admin client. */
class AdminTest {
    @Test
    @Timeout(60)
    void createsAndDescribesTopics() throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", Dev.shared().kafka))) {
            CreateTopicsResult made = admin.createTopics(List.of(new NewTopic("admin-test", 3, (short) 1)));
            made.all().get(30, TimeUnit.SECONDS);
            assertEquals(3, made.numPartitions("admin-test").get(30, TimeUnit.SECONDS));
            TopicDescription found = admin.describeTopics(List.of("admin-test")).allTopicNames()
                    .get(30, TimeUnit.SECONDS).get("admin-test");
            assertEquals(3, found.partitions().size());
            admin.deleteTopics(List.of("admin-test")).all().get(30, TimeUnit.SECONDS);
        }
    }
}
