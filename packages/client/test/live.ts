// What tests of the client share: a service that listens, with a project of its own.
import type { AddressInfo } from 'node:net';
import { beforeAll, expect } from 'vitest';
import { type TestService, useTestService } from '../../server/test/support/helpers.ts';
import { type Client, type ClientOptions, createClient } from '../src/index.ts';

export type Live = {
  rowhouse: TestService;
  url: string;
  slug: string;
  projectKey: string;
  publishableKey: string;
  /** With the project's key unless another is given. */
  client(options?: Partial<ClientOptions>): Client;
};

export function useLive(options: Parameters<typeof useTestService>[0] = {}): Live {
  const rowhouse = useTestService({ spares: 1, ...options });
  const live = { rowhouse } as Live;
  beforeAll(async () => {
    await rowhouse.app.listen({ host: '127.0.0.1', port: 0 });
    live.url = `http://127.0.0.1:${(rowhouse.app.server.address() as AddressInfo).port}`;
    const { slug, key } = await rowhouse.project('Tea Shop');
    const issued = await rowhouse.call('POST', `/projects/${slug}/keys`, {
      body: { name: 'browser', kind: 'publishable' },
    });
    expect(issued.status).toBe(201);
    live.slug = slug;
    live.projectKey = key;
    live.publishableKey = issued.body.api_key;
    live.client = (more) => createClient({ url: live.url, apiKey: key, project: slug, ...more });
  });
  return live;
}

/** The error of something that must fail. */
export async function failureOf(work: PromiseLike<unknown>): Promise<unknown> {
  return Promise.resolve(work).then(
    () => expect.fail('It should have failed.'),
    (error) => error,
  );
}

export async function collect<T>(rows: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const row of rows) found.push(row);
  return found;
}
