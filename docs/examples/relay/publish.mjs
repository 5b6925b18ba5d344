// Publish changes through `rspub relay`: all of them, in order, each once.
//
//     node publish.mjs http://localhost:8091/ < changes.jsonl
//
// Each line is a change, with an id that stays the same when the line is sent again, such as the
// number of its row in your database:
//
//     {"id": "42", "change": "updated", "url": "https://example.org/books/1"}
//
// If the relay, the network or this program breaks, run it again with the same lines: the relay
// remembers each id for 72 hours, and publishes nothing twice. The environment variable
// RELAY_TOKEN has the token, if the relay needs one. Node 18 or later.

import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

// publish returns the relay's answer when the change is on its disk, however long that takes.
async function publish(relay, key, change) {
  const headers = { "Content-Type": "application/json", "Idempotency-Key": key };
  if (process.env.RELAY_TOKEN) headers.Authorization = `Bearer ${process.env.RELAY_TOKEN}`;
  for (let wait = 100; ; wait = Math.min(2 * wait, 30_000)) {
    let why;
    try {
      const answer = await fetch(relay, {
        method: "POST", headers, body: JSON.stringify(change), signal: AbortSignal.timeout(60_000),
      });
      const said = await answer.json();
      if (answer.ok) return said;
      // Sending it again does not help.
      if (answer.status < 500) throw new RangeError(`${key} was refused: ${said.error}`);
      why = `the relay answers ${answer.status}`;
    } catch (error) {
      if (error instanceof RangeError) throw error;
      why = error.cause ?? error; // perhaps it was recorded, and only the answer is lost
    }
    console.error(`waiting for the relay: ${why}`);
    await sleep(wait);
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, ...change } = JSON.parse(line);
  const answer = await publish(process.argv[2], id, change);
  console.log(id, answer.seq);
}
