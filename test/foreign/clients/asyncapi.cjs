// The AsyncAPI project's own parser; NODE_PATH says where it is.
//
//   asyncapi.cjs < DOCUMENT    what it found as JSON: {"channels","operations","examples","faults":[…]}
//
// Faults are errors and warnings. A hint that there is a newer AsyncAPI is none. The parser does not hold
// examples of version 3 against their schemas, so the validator it is built on does.
const { Parser } = require("@asyncapi/parser");
const Ajv = require("ajv");
const { readFileSync } = require("node:fs");

const WARNING = 1;

async function main() {
  const { document, diagnostics } = await new Parser().parse(readFileSync(0, "utf8"));
  const faults = diagnostics
    .filter(({ severity }) => severity <= WARNING)
    .map(({ code, path, message }) => `${code} at ${path.join("/")}: ${message}`);
  const messages = document?.allMessages().all() ?? [];
  for (const m of messages) faults.push(...wrongExamples(m));
  const examples = messages.flatMap((m) => m.examples().all());
  const count = (what) => document?.[what]().all().length ?? 0;
  console.log(JSON.stringify({ channels: count("channels"), operations: count("operations"), examples: examples.length, faults }));
}

function wrongExamples(m) {
  const ajv = new Ajv({ strict: false });
  const check = (what, schema, value) => (!schema || ajv.validate(schema.json(), value) ? [] : [`example of ${m.id()}: ${what}: ${ajv.errorsText()}`]);
  return m
    .examples()
    .all()
    .flatMap((e) => [...check("payload", m.payload(), e.payload()), ...check("headers", m.headers(), e.headers() ?? {})]);
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});
