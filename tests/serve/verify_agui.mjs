// Checks runs as AG-UI events by the schemas of the protocol's own packages, and their order by its client. The input is
// a list of lists of events; prints one list of faults. The argument is the packages' directory.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
const load = createRequire(process.argv[2]);
const { EventSchemas } = load("@ag-ui/core/schemas");
const { verifyEvents } = load("@ag-ui/client");
const { from, lastValueFrom } = load("rxjs");
const faults = [];
for (const events of JSON.parse(readFileSync(0, "utf8"))) {
  for (const event of events) {
    const parsed = EventSchemas.safeParse(event);
    if (!parsed.success) faults.push(`${event.type}: ${parsed.error}`);
  }
  await lastValueFrom(verifyEvents(false)(from(events))).catch((error) => faults.push(String(error)));
}
console.log(JSON.stringify(faults));
