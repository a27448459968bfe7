// Sends the requests of the soak test and counts their outcomes, with and without an injected fault.
import { setTimeout as sleep } from 'node:timers/promises';

/** Errors during a fault, and for this long after it, are attributed to it. */
const settledMs = 15_000;

/** `faults`: the injected faults, [{ at, doneAt }]; `doneAt` is null until the service answers again. */
export function createRequests(api, faults) {
  /** By kind of request and outcome: how often, without a fault (`calm`) and around one (`disturbed`). */
  const answers = new Map();

  function note(kind, code, status) {
    const now = performance.now();
    const calm = faults.every(({ at, doneAt }) => now < at || now > (doneAt ?? now) + settledMs);
    const name = `${kind} ${code}`;
    const entry = answers.get(name) ?? { kind, code, status, calm: 0, disturbed: 0 };
    entry[calm ? 'calm' : 'disturbed']++;
    answers.set(name, entry);
  }

  /** `code`: ok, an error code of the service, or how the connection ended. `isSure`: the request certainly changed nothing. */
  async function send(kind, method, target, key, body, { type = 'application/json', hangUpMs } = {}) {
    const hangUp = new AbortController();
    const timer = hangUpMs && setTimeout(() => hangUp.abort(), hangUpMs);
    try {
      const response = await fetch(api + target, {
        method,
        headers: { 'x-api-key': key, ...(body !== undefined && { 'content-type': type }) },
        ...(body !== undefined && { body: type === 'application/json' ? JSON.stringify(body) : body }),
        signal: AbortSignal.any([hangUp.signal, AbortSignal.timeout(120_000)]),
      });
      const answer = await response.json();
      const code = answer.ok ? 'ok' : answer.error.code;
      note(kind, code, response.status);
      const isSure = !answer.ok && code !== 'outcome_unknown' && code !== 'internal_error';
      return { ok: answer.ok, code, isSure, answer };
    } catch (error) {
      const refused = error.cause?.code === 'ECONNREFUSED';
      const code = hangUp.signal.aborted ? 'disconnected' : refused ? 'not reachable' : 'connection lost';
      note(kind, code, 0);
      return { ok: false, code, isSure: refused, answer: null };
    } finally {
      clearTimeout(timer);
    }
  }

  /** For requests that must succeed before or after the load. */
  async function insist(method, target, key, body) {
    let last;
    for (let attempt = 0; attempt < 60; attempt++) {
      last = await send('set-up', method, target, key, body);
      if (last.ok) return last.answer;
      await sleep(500);
    }
    throw new Error(`${method} ${target}: ${JSON.stringify(last.answer ?? last.code)}`);
  }

  return { send, insist, answers };
}
