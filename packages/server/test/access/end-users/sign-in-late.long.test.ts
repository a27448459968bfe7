// The process that hashes passwords stands still: what callers are told, and that nothing happens afterwards.
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { listening, Page } from '../../support/console-page.ts';
import { api, until, useTestService } from '../../support/helpers.ts';
import { hashProcessesOf } from '../../support/process.ts';

const rowhouse = useTestService({ spares: 2 });
const password = 'violet anchor seven maple';
let project: { slug: string; id: string; key: string };
let other: typeof project;

const auth = (how: string, email: string, at = project, headers = {}) =>
  rowhouse.call('POST', `/projects/${at.slug}/auth/${how}`, {
    key: at.key,
    body: { email, password },
    headers,
  });
const emails = async () => {
  const { body } = await rowhouse.call('GET', `/projects/${project.slug}/auth/users`, { key: project.key });
  return body.users.map(({ email }: { email: string }) => email);
};

beforeAll(async () => {
  [project, other] = [await rowhouse.project('Late'), await rowhouse.project('Other')];
  expect((await auth('signup', 'ada@example.com')).status).toBe(201);
});

function standStill(): () => void {
  const [pid = 0] = hashProcessesOf(process.pid);
  process.kill(pid, 'SIGSTOP');
  const goOn = () => void process.kill(pid, 'SIGCONT');
  onTestFinished(goOn);
  return goOn;
}

const late = {
  status: 503,
  body: {
    error: { code: 'unavailable', message: 'Signing in takes too long because the service is busy.' },
  },
};

describe('while no password is hashed', () => {
  it('sign-ups and sign-ins get 503 in time, nothing was changed, and the same request works later', async () => {
    const goOn = standStill();
    const answers = await Promise.all([
      auth('signup', 'bob@example.com', project, { 'idempotency-key': 'bob' }),
      auth('signin', 'ada@example.com'),
      auth('signup', 'eve@example.com', other),
    ]);
    for (const answer of answers) {
      expect(answer).toMatchObject(late);
      expect(Number(answer.headers['retry-after'])).toBeGreaterThan(1);
    }
    expect(await emails()).toEqual(['ada@example.com']);
    goOn();
    await until('the queue is empty', async () => {
      const { running, waiting } = rowhouse.service.deps.users.hashing.counts();
      return running + waiting === 0;
    });
    expect(await emails()).toEqual(['ada@example.com']);
    expect((await auth('signup', 'bob@example.com', project, { 'idempotency-key': 'bob' })).status).toBe(201);
    expect((await auth('signin', 'ada@example.com')).status).toBe(200);
    expect((await emails()).toSorted()).toEqual(['ada@example.com', 'bob@example.com']);
  }, 60_000);

  it('the sign-in of a person in the console gets the same, and works later', async () => {
    const email = 'grace@example.com';
    const { body } = await rowhouse.call('POST', `${api}/account/invitations`, {
      body: { email, role: 'viewer' },
    });
    const page = async () => new Page(await listening(rowhouse));
    const code = String(body.link).split('#invitation=')[1];
    const accepted = await (await page()).call('POST', '/console/invitation/accept', {
      body: { code, password },
    });
    expect(accepted.status, accepted.text).toBe(200);
    const goOn = standStill();
    const answer = await (await page()).signIn({ email, password });
    expect(answer).toMatchObject(late);
    expect(Number(answer.headers['retry-after'])).toBeGreaterThan(1);
    goOn();
    await until('the queue is empty', async () => {
      const { running, waiting } = rowhouse.service.deps.users.hashing.counts();
      return running + waiting === 0;
    });
    expect((await (await page()).signIn({ email, password })).status).toBe(201);
  }, 60_000);
});
