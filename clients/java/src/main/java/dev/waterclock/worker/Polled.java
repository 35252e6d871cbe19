package dev.waterclock.worker;

import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;

/** The records of one partition from one poll, decoded. */
final class Polled {
    private static final int OBJECTS = 512; // bytes in memory for the objects of an event, about

    /** The event is null if the record is garbled. */
    record Record(long offset, int size, DueEvent event) {}

    final List<Record> records;
    final long lastOffset;
    final long lastAppended; // ms of the brokers' clock; 0 if a producer has set it

    /** A record that is not a due event is counted, logged and stepped over. */
    Polled(List<ConsumerRecord<byte[], byte[]>> raw, boolean high, Meter meter, Throttle garbled) {
        records = new ArrayList<>(raw.size());
        for (ConsumerRecord<byte[], byte[]> r : raw) {
            DueEvent event = null;
            try {
                event = Decoder.decode(r, high);
            } catch (Decoder.Garbled e) {
                meter.garbled(e.header);
                garbled.warn("skipped a record that is not a due event: " + r.topic() + "/" + r.partition() + "/"
                        + r.offset() + ": " + e.getMessage());
            }
            records.add(new Record(r.offset(), sizeOf(r), event));
        }
        ConsumerRecord<byte[], byte[]> last = raw.get(raw.size() - 1);
        lastOffset = last.offset();
        lastAppended = last.timestampType() == TimestampType.LOG_APPEND_TIME ? last.timestamp() : 0;
    }

    /** The bytes of a record in memory, about. */
    private static int sizeOf(ConsumerRecord<byte[], byte[]> r) {
        int size = OBJECTS + Math.max(r.serializedKeySize(), 0) + Math.max(r.serializedValueSize(), 0);
        for (Header h : r.headers()) {
            size += h.key().length() + (h.value() == null ? 0 : h.value().length);
        }
        return size;
    }
}
