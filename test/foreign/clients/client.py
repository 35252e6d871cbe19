"""confluent-kafka (librdkafka) with its defaults.

client.py produce BOOTSTRAP            records from stdin, a JSON line each
client.py consume BOOTSTRAP TOPIC N    N committed records to stdout, a JSON line each
client.py events BOOTSTRAP TOPIC N     the same as the CloudEvents SDK understands them, in its JSON format
"""

import base64
import json
import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition


def produce(bootstrap):
    failed = []
    producer = Producer({"bootstrap.servers": bootstrap})
    for line in sys.stdin:
        r = json.loads(line)
        producer.produce(
            r["topic"],
            key=decode(r["key"]),
            value=decode(r["value"]),
            headers=[(h["key"], decode(h["value"])) for h in r["headers"] or []],
            on_delivery=lambda err, _: failed.append(err) if err else None,
        )
        producer.poll(0)
    producer.flush()
    if failed:
        sys.exit(f"not delivered: {failed[0]}")


def consume(bootstrap, topic, n, show):
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "foreign-python",  # demanded, though nothing is committed
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
    while n > 0:
        r = consumer.poll(1)
        if r is None:
            continue
        if r.error():
            raise KafkaException(r.error())
        print(show(r), flush=True)
        n -= 1
    consumer.close()


def event(r):
    from cloudevents.core.bindings.kafka import KafkaMessage, from_binary
    from cloudevents.core.formats.json import JSONFormat

    message = KafkaMessage(headers=dict(r.headers()), key=r.key(), value=r.value())
    return JSONFormat().write(from_binary(message, JSONFormat())).decode()


def record(r):
    return json.dumps(fields(r))


def fields(r):
    return {
        "topic": r.topic(),
        "partition": r.partition(),
        "offset": r.offset(),
        "timestamp": r.timestamp()[1],
        "key": encode(r.key()),
        "value": encode(r.value()),
        "headers": [{"key": k, "value": encode(v)} for k, v in r.headers() or []],
    }


def encode(data):
    return None if data is None else base64.b64encode(data).decode()


def decode(text):
    return None if text is None else base64.b64decode(text)


if sys.argv[1] == "produce":
    produce(sys.argv[2])
else:
    consume(sys.argv[2], sys.argv[3], int(sys.argv[4]), event if sys.argv[1] == "events" else record)
