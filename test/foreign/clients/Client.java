import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The Java client with its defaults.
 *
 * <pre>
 * Client.java produce BOOTSTRAP            records from stdin, a JSON line each
 * Client.java consume BOOTSTRAP TOPIC N    N committed records to stdout, a JSON line each
 * </pre>
 */
public class Client {
  static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] args) throws Exception {
    if (args[0].equals("produce")) {
      produce(args[1]);
    } else {
      consume(args[1], args[2], Integer.parseInt(args[3]));
    }
  }

  static void produce(String bootstrap) throws Exception {
    Map<String, Object> config = Map.of("bootstrap.servers", bootstrap);
    try (var producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
      List<Future<?>> sent = new ArrayList<>();
      var in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
      for (String line; (line = in.readLine()) != null; ) {
        sent.add(producer.send(decode(JSON.readTree(line))));
      }
      for (Future<?> f : sent) {
        f.get();
      }
    }
  }

  static void consume(String bootstrap, String topic, int n) throws Exception {
    Map<String, Object> config =
        Map.of("bootstrap.servers", bootstrap, "isolation.level", "read_committed", "auto.offset.reset", "earliest");
    try (var consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
      List<TopicPartition> partitions = new ArrayList<>();
      consumer.partitionsFor(topic).forEach(p -> partitions.add(new TopicPartition(topic, p.partition())));
      consumer.assign(partitions);
      consumer.seekToBeginning(partitions);
      while (n > 0) {
        for (var r : consumer.poll(Duration.ofSeconds(1))) {
          if (n-- > 0) {
            System.out.println(encode(r));
          }
        }
      }
    }
  }

  static ProducerRecord<byte[], byte[]> decode(JsonNode j) throws Exception {
    var r = new ProducerRecord<>(j.get("topic").asText(), bytes(j, "key"), bytes(j, "value"));
    for (JsonNode h : j.path("headers")) {
      r.headers().add(h.get("key").asText(), bytes(h, "value"));
    }
    return r;
  }

  static String encode(ConsumerRecord<byte[], byte[]> r) throws Exception {
    ObjectNode j = JSON.createObjectNode();
    j.put("topic", r.topic()).put("partition", r.partition()).put("offset", r.offset()).put("timestamp", r.timestamp());
    j.put("key", r.key()).put("value", r.value());
    ArrayNode headers = j.putArray("headers");
    for (Header h : r.headers()) {
      headers.addObject().put("key", h.key()).put("value", h.value());
    }
    return JSON.writeValueAsString(j);
  }

  /** The base64 text of a field as bytes; null for null. */
  static byte[] bytes(JsonNode j, String field) throws Exception {
    return j.hasNonNull(field) ? j.get(field).binaryValue() : null;
  }
}
