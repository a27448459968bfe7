// A service of its own process whose event loop is watched (loop-lag.mjs).
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { until } from '../support/helpers.ts';
import { launch, newDataFolder, type Running } from '../support/process.ts';

export type WatchedService = {
  service: Running;
  /** The longest stretch for which the event loop was busy since the last question. */
  longestMs(): Promise<number>;
};

export async function launchWatched(accountKey: string): Promise<WatchedService> {
  const monitor = pathToFileURL(path.join(import.meta.dirname, 'loop-lag.mjs')).href;
  const service = await launch({
    ROWHOUSE_DATA: newDataFolder(),
    ROWHOUSE_ACCOUNT_KEY: accountKey,
    NODE_OPTIONS: `--import=${monitor}`,
  });
  let asked = 0;
  /** How much of the output earlier answers take. */
  let seen = 0;
  return {
    service,
    longestMs: async () => {
      asked++;
      service.child.kill('SIGUSR2');
      const line = () =>
        new RegExp(`loop-lag (\\{"count":${asked},.*\\})`).exec(service.output().slice(seen))?.[1];
      await until('the monitor answers', async () => line() !== undefined, 20_000);
      const answer = line() ?? '{}';
      seen = service.output().length;
      return JSON.parse(answer).longestMs;
    },
  };
}
