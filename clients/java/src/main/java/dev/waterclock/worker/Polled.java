package dev.waterclock.worker;

import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.record.TimestampType;

/** The records of one partition from one poll, decoded. */
final class Polled {
    private static final int HEADERS = 512; // bytes in memory for the headers and objects of an event, about

    /** The event is null if the record is garbled. */
    record Record(long offset, int size, DueEvent event) {}

    final List<Record> records;
    final long lastOffset;
    final long lastAppended; // ms of the brokers' clock; 0 if a producer has set it

    /** A record that is not a due event is counted, logged and stepped over. */
    Polled(List<ConsumerRecord<byte[], byte[]>> raw, boolean high, Meter meter, Throttle garbled) {
        records = new ArrayList<>(raw.size());
        for (ConsumerRecord<byte[], byte[]> r : raw) {
            int size = HEADERS + Math.max(r.serializedKeySize(), 0) + Math.max(r.serializedValueSize(), 0);
            DueEvent event = null;
            try {
                event = Decoder.decode(r, high);
            } catch (Decoder.Garbled e) {
                meter.garbled(e.header);
                garbled.warn("skipped a record that is not a due event: " + r.topic() + "/" + r.partition() + "/"
                        + r.offset() + ": " + e.getMessage());
            }
            records.add(new Record(r.offset(), size, event));
        }
        ConsumerRecord<byte[], byte[]> last = raw.get(raw.size() - 1);
        lastOffset = last.offset();
        lastAppended = last.timestampType() == TimestampType.LOG_APPEND_TIME ? last.timestamp() : 0;
    }
}
