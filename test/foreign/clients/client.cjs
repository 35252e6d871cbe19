// kafkajs with its defaults; NODE_PATH says where it is.
//
//   client.cjs produce BOOTSTRAP            records from stdin, a JSON line each
//   client.cjs consume BOOTSTRAP TOPIC N    N committed records to stdout, a JSON line each
//   client.cjs events BOOTSTRAP TOPIC N     the same as the CloudEvents SDK understands them, in its JSON format
//
// Its headers are an object: a repeated key keeps its values' order, but the order between
// different keys is that of their first appearance.
const { Kafka, logLevel } = require("kafkajs");
const readline = require("node:readline");

const [verb, bootstrap, topic, count] = process.argv.slice(2);
const kafka = new Kafka({ clientId: "foreign-node", brokers: bootstrap.split(","), logLevel: logLevel.ERROR });

async function produce() {
  const messages = new Map(); // by topic
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const r = JSON.parse(line);
    if (!messages.has(r.topic)) messages.set(r.topic, []);
    messages.get(r.topic).push({ key: decode(r.key), value: decode(r.value), headers: headersOf(r.headers) });
  }
  const producer = kafka.producer();
  await producer.connect();
  await producer.sendBatch({ topicMessages: [...messages].map(([topic, messages]) => ({ topic, messages })) });
  await producer.disconnect();
}

async function consume(n) {
  const consumer = kafka.consumer({ groupId: `foreign-node-${process.pid}-${Date.now()}`, readUncommitted: false });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, (e) => reject(e.payload.error));
    consumer
      .run({
        autoCommit: false,
        eachMessage: async ({ partition, message }) => {
          if (n-- > 0) console.log(JSON.stringify(verb === "events" ? event(message) : record(partition, message)));
          if (n === 0) resolve();
        },
      })
      .catch(reject);
  });
  await consumer.disconnect();
}

function record(partition, m) {
  const headers = Object.entries(m.headers ?? {}).flatMap(([key, values]) =>
    [values].flat().map((value) => ({ key, value: encode(value) })),
  );
  const { offset, timestamp, key, value } = m;
  return { topic, partition, offset: Number(offset), timestamp: Number(timestamp), key: encode(key), value: encode(value), headers };
}

// The SDK wants headers as text, and throws at what is no valid CloudEvent.
function event(m) {
  const { Kafka: binding } = require("cloudevents");
  const headers = Object.fromEntries(Object.entries(m.headers).map(([key, value]) => [key, String(value)]));
  const e = binding.toEvent({ ...m, headers });
  e.validate();
  return e;
}

function headersOf(list) {
  const headers = {};
  for (const { key, value } of list ?? []) {
    if (key in headers) headers[key] = [headers[key], decode(value)].flat();
    else headers[key] = decode(value);
  }
  return headers;
}

const encode = (data) => (data === null || data === undefined ? null : Buffer.from(data).toString("base64"));
const decode = (text) => (text === null ? null : Buffer.from(text, "base64"));

(verb === "produce" ? produce() : consume(Number(count))).catch((err) => {
  console.error(err);
  process.exit(1);
});
