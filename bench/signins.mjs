// Sends concurrent sign-ins from a separate process, so that their cost does not distort what the benchmark measures.
// node bench/signins.mjs '{"url", "key", "emails", "password", "clients", "seconds", "waitMs"}'. Without a key, people sign in to
// the console at `url`, as its page does. waitMs is how long a client waits after a refusal. null: as long as Retry-After says, plus
// up to a second, as people do.
import { setPriority } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { rateOf } from './load.mjs';

// Real clients run on other machines: the CPU time of hundreds of them must not be taken from the service.
setPriority(10);

/** 401: the key is not valid, and nothing was hashed. */
const isRefusal = ({ status }) => status === 429 || status === 401;

async function flood({ url, key, emails, password, clients, seconds, waitMs }) {
  const end = performance.now() + seconds * 1000;
  const doneAt = [];
  let refused = 0;
  const headers = key
    ? { 'x-api-key': key }
    : { origin: url, 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'cors', 'sec-fetch-dest': 'empty' };
  const client = async (_, n) => {
    while (performance.now() < end) {
      const response = await fetch(url + (key ? '/auth/signin' : '/console/session'), {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json' },
        body: JSON.stringify({ email: emails[n % emails.length], password }),
      });
      const answer = await response.text();
      if (response.ok) doneAt.push(performance.now());
      else if (isRefusal(response)) refused++;
      else throw new Error(`${response.status}: ${answer}`);
      const told = (Number(response.headers.get('retry-after') ?? 2) + Math.random()) * 1000;
      if (isRefusal(response)) await sleep(Math.min(waitMs ?? told, Math.max(0, end - performance.now())));
    }
  };
  await Promise.all(Array.from({ length: clients }, client));
  const inTime = doneAt.filter((at) => at <= end);
  // On a machine that is busy otherwise, hardly any is done in time: then those that were begun in time count.
  const rate = doneAt.length > 0 ? rateOf(inTime.length > 1 ? inTime : doneAt) : 0;
  return { rate, done: doneAt.length, refused };
}

console.log(JSON.stringify(await flood(JSON.parse(process.argv[2]))));
