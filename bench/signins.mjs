// Sends concurrent sign-ins from a separate process, so that their cost does not distort what the benchmark measures.
// node bench/signins.mjs '{"url", "key", "emails", "password", "clients", "seconds", "waitMs", "rate"}'. Without a key, people sign
// in to the console at `url`, as its page does. waitMs is how long a client waits after a refusal. null: as long as Retry-After says,
// plus up to a second, as people do. With a rate, all clients together send so many requests per second that are refused for their
// form, after the key was verified and the body read: a control, for which nothing is hashed. A process that has an IPC channel
// sends 'open' once all connections are open, and begins at the next message.
import { Agent, request } from 'node:http';
import { setPriority } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { rateOf } from './load.mjs';

// Real clients run on other machines: the CPU time of hundreds of them must not be taken from the service.
setPriority(10);

const form = JSON.parse(process.argv[2]);
const result = await flood(form);
if (process.send) process.send(result, () => process.disconnect());
else console.log(JSON.stringify(result));

async function flood({ url, key, emails, password, clients, seconds, waitMs, rate }) {
  const headers = key
    ? { 'x-api-key': key }
    : { origin: url, 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'cors', 'sec-fetch-dest': 'empty' };
  const agents = Array.from({ length: clients }, () => new Agent({ keepAlive: true, maxSockets: 1 }));
  const signIn = (n, given) =>
    send(agents[n], 'POST', url + (key ? '/auth/signin' : '/console/session'), headers, {
      email: emails[n % emails.length],
      password: given,
    });
  await Promise.all(agents.map((agent) => send(agent, 'GET', `${new URL(url).origin}/healthz`, {})));
  await permission();

  const start = performance.now();
  const end = start + seconds * 1000;
  const doneAt = [];
  let refused = 0;
  let refusedInTime = 0;
  const note = ({ status, text }, expected) => {
    const now = performance.now();
    if (status === 200) doneAt.push(now);
    else if (status === expected) {
      refused++;
      if (now <= end) refusedInTime++;
    } else throw new Error(`${status}: ${text}`);
  };
  const person = async (n) => {
    while (performance.now() < end) {
      const answer = await signIn(n, password);
      note(answer, 429);
      if (answer.status === 200) continue;
      const told = (Number(answer.retryAfter ?? 2) + Math.random()) * 1000;
      await sleep(Math.min(waitMs ?? told, Math.max(0, end - performance.now())));
    }
  };
  const control = async (n) => {
    const every = (clients / rate) * 1000;
    for (let at = start + Math.random() * every; at < end; at += every) {
      await sleep(Math.max(0, at - performance.now()));
      note(await signIn(n, null), 400);
    }
  };
  await Promise.all(agents.map((_, n) => (rate ? control(n) : person(n))));
  for (const agent of agents) agent.destroy();
  const inTime = doneAt.filter((at) => at <= end);
  return {
    // On a machine that is busy otherwise, hardly any is done in time: then those that were begun in time count.
    rate: doneAt.length > 0 ? rateOf(inTime.length > 1 ? inTime : doneAt) : 0,
    done: doneAt.length,
    refused,
    requestsPerSecond: (inTime.length + refusedInTime) / seconds,
  };
}

function permission() {
  if (!process.send) return;
  process.send('open');
  return new Promise((resolve) => process.once('message', resolve));
}

function send(agent, method, url, headers, body) {
  return new Promise((resolve, reject) => {
    const bytes = body && Buffer.from(JSON.stringify(body));
    const about = bytes ? { 'content-type': 'application/json', 'content-length': bytes.length } : {};
    const sent = request(url, { method, agent, headers: { ...headers, ...about } }, (response) => {
      let text = '';
      response.on('data', (piece) => {
        text += piece;
      });
      response.on('end', () =>
        resolve({ status: response.statusCode, text, retryAfter: response.headers['retry-after'] }),
      );
      response.on('error', reject);
    });
    sent.on('error', reject);
    sent.end(bytes);
  });
}
