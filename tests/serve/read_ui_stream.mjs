// Reads server-sent events of a UI message stream with the parser of Vercel's AI SDK, as `useChat` does; prints the
// message that they make, and checks it as an application does that loads it again. The first line of the input is the
// message so far, or null. The argument is the package.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
const sdk = createRequire(process.argv[2])("ai");
const { parseJsonEventStream, readUIMessageStream, safeValidateUIMessages, uiMessageChunkSchema } = sdk;
const [first, ...rest] = readFileSync(0, "utf8").split("\n");
const body = new Response(rest.join("\n")).body;
const parts = parseJsonEventStream({ stream: body, schema: uiMessageChunkSchema }).pipeThrough(
  new TransformStream({
    transform(part, controller) {
      if (!part.success) throw part.error;
      controller.enqueue(part.value);
    },
  }),
);
let last = null;
const errors = [];
const message = JSON.parse(first) ?? undefined;
const onError = (error) => errors.push(String(error));
for await (const state of readUIMessageStream({ message, stream: parts, onError, terminateOnError: false })) last = state;
const checked = last && (await safeValidateUIMessages({ messages: [last] }));
if (checked && !checked.success) onError(checked.error);
console.log(JSON.stringify({ message: last, errors }));
