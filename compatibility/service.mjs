// Starts a live service for a test file, creates projects in it, and defines the one schema that all tested clients use.
import { fileURLToPath } from 'node:url';
import { beforeAll } from 'vitest';
import { useTestService } from '../packages/server/test/support/helpers.ts';

export const folder = fileURLToPath(new URL('.', import.meta.url));

/** `endpoint`: the URL for Neon's driver. */
export function useLiveService() {
  const rowhouse = useTestService({ spares: 3 });
  const live = {
    endpoint: '',
    rowhouse,
    /** A project with two connection strings: with its password (`url`) and with its API key (`byKey`). */
    async project(name) {
      const made = await rowhouse.project(name);
      const { body } = await rowhouse.call('GET', `/projects/${made.slug}/connection`);
      const byKey = `postgresql://anybody:${made.key}@rowhouse.example/${made.slug}`;
      return { ...made, url: body.connection.url, byKey };
    },
  };
  beforeAll(async () => {
    live.endpoint = `${await rowhouse.app.listen({ port: 0, host: '127.0.0.1' })}/sql`;
  });
  return live;
}

export const notes = `create table notes (
  id integer primary key generated always as identity,
  text text not null unique,
  tags text[] not null default '{}',
  data jsonb,
  size bigint,
  at timestamp with time zone not null default now()
)`;
