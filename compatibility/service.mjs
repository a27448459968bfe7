// A live service for a test file, and projects in it; what the clients under test have to find, one schema for all.
import { fileURLToPath } from 'node:url';
import { beforeAll } from 'vitest';
import { useTestService } from '../packages/server/test/helpers.ts';

export const folder = fileURLToPath(new URL('.', import.meta.url));

/** `endpoint`: where Neon's driver is to be pointed at. */
export function useLiveHouse() {
  const rowhouse = useTestService({ spares: 3 });
  const live = {
    endpoint: '',
    rowhouse,
    /** A project with a connection string, and its API key as one. */
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
