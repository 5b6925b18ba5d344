// A subscriber with pubsubhubbub. It prints a line of JSON for each event, and does what
// it reads: subscribe or unsubscribe.
//
// node subscriber.mjs HUB TOPIC PORT SECRET
import { createHash, createHmac } from 'node:crypto';
import { createInterface } from 'node:readline';
import pubsubhubbub from 'pubsubhubbub';

const [hub, topic, port, secret] = process.argv.slice(2);
const subscriber = pubsubhubbub.createServer({ callbackUrl: `http://127.0.0.1:${port}/callback`, leaseSeconds: 3600, maxContentSize: 50 << 20, secret });
const say = (event, more) => console.log(JSON.stringify({ event, ...more }));

for (const event of ['listen', 'subscribe', 'unsubscribe', 'denied', 'error']) {
  subscriber.on(event, (data) => say(event, { topic: data?.topic, error: data?.error && String(data.error) }));
}
subscriber.on('feed', (data) =>
  say('feed', {
    topic: data.topic,
    sha256: createHash('sha256').update(data.feed).digest('hex'),
    id: data.headers['webhook-id'],
  }),
);
subscriber.listen(Number(port), '127.0.0.1');

createInterface({ input: process.stdin }).on('line', (line) => {
  subscriber.secret = secret;
  subscriber[line](topic, hub, (error) => say(`${line} answered`, { error: error && `${error}: ${error.responseBody}` }));
  // 1.0.2 gives the hub an HMAC of the topic as the secret, and checks signatures with
  // another: its own.
  subscriber.secret = createHmac('sha1', secret).update(topic).digest('hex');
});
