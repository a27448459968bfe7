// A service whose data outlives it: benchmarks start it again on the same folder, after a stop or after a crash.
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { start, stop, superuserUrl } from './load.mjs';
import { postmasterOf } from './processes.mjs';

export const root = '/api/dbaas/v2';

/** `env`: additional settings. */
export async function openInstallation(data, { spares, env = {} }) {
  const { makeKey } = await import('../packages/server/dist/keys/form.js');
  const port = 20_000 + Math.floor(Math.random() * 10_000);
  const url = `http://127.0.0.1:${port}${root}`;
  const account = makeKey('rh_acct_');
  const settings = {
    ROWHOUSE_DATA: data,
    ROWHOUSE_PORT: String(port),
    ROWHOUSE_ACCOUNT_KEY: account,
    ROWHOUSE_SPARES: String(spares),
    ...env,
  };
  let service = null;

  return {
    url,
    port,
    account,
    pid: () => service.child.pid,
    postmaster: () => postmasterOf(data),
    /** Returns how many milliseconds it took. */
    start: async () => {
      const began = performance.now();
      service = await start('packages/server/dist/main.js', settings, /^ready$/m);
      return performance.now() - began;
    },
    stop: async () => {
      if (service) await stop(service);
      service = null;
    },
    /** Kills the service, and PostgreSQL unless `keepPostgres`. */
    crash: async ({ keepPostgres = false } = {}) => {
      service.child.removeAllListeners('exit');
      service.child.kill('SIGKILL');
      if (!keepPostgres) process.kill(postmasterOf(data), 'SIGKILL');
      await once(service.child, 'exit');
    },
    /** Writes everything out, so that the duration of the next start does not depend on earlier work. */
    settle: async () => {
      const client = new pg.Client(await superuserUrl(data));
      await client.connect();
      await client.query('checkpoint');
      await client.end();
    },
    /** Spares are made in the background until there are enough: not while something is measured. */
    sparesReady: async () => {
      for (;;) {
        const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
        if (Number(/^rowhouse_spares (\d+)/m.exec(metrics)?.[1]) >= spares) return;
        await sleep(100);
      }
    },
    call: async (method, target, body) => {
      const response = await fetch(url + target, {
        method,
        // A kept connection may have been closed while wrk blocked this process.
        headers: {
          connection: 'close',
          'x-api-key': account,
          ...(body && { 'content-type': 'application/json' }),
        },
        ...(body && { body: JSON.stringify(body) }),
      });
      const answer = await response.json();
      if (!answer.ok) throw new Error(`${method} ${target}: ${JSON.stringify(answer)}`);
      return answer;
    },
  };
}
