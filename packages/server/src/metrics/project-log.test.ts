import { expect, it } from 'vitest';
import { errors } from '../errors/errors.ts';
import { type NotedRequest, openProjectLog } from './project-log.ts';

const minute = 60_000;
const request = (more: Partial<NotedRequest> = {}): NotedRequest => ({
  requestId: 'r',
  method: 'POST',
  route: '/api/dbaas/v2/projects/:slug/query',
  path: '/x',
  status: 200,
  ms: 1,
  keyId: 'key',
  projectId: 'p',
  failure: null,
  statement: null,
  ...more,
});
const failed = (more: Partial<NotedRequest> = {}) =>
  request({ status: 404, failure: errors.tableNotFound('t', null), ...more });

it('counts requests by the minute, for an hour', () => {
  let at = 1_000 * minute;
  const log = openProjectLog(() => at);
  log.note(request());
  log.note(failed());
  at += 59 * minute;
  log.note(request({ ms: 1_500 }));
  expect(log.read('p').requests).toEqual([
    { at: new Date(1_000 * minute).toISOString(), requests: 2, failures: 1, slow: 0 },
    { at: new Date(1_059 * minute).toISOString(), requests: 1, failures: 0, slow: 1 },
  ]);
  at += minute;
  expect(log.read('p').requests).toHaveLength(1);
  log.note(request());
  expect(log.read('p').requests.map((one) => one.requests)).toEqual([1, 1]);
  at += 1_000 * minute;
  expect(log.read('p').requests).toEqual([]);
});

it('keeps the newest of each project, and forgets the project that was quiet longest', () => {
  let at = 1_000 * minute;
  const log = openProjectLog(() => at, { maxProjects: 3, maxEntries: 120 });
  for (let n = 0; n < 80; n++) log.note(failed({ projectId: 'a', requestId: String(n) }));
  expect(
    log
      .read('a')
      .failures.map((one) => one.request_id)
      .slice(0, 2),
  ).toEqual(['79', '78']);
  expect(log.read('a').failures).toHaveLength(50);
  for (let n = 0; n < 50; n++) log.note(failed({ projectId: 'b' }));
  at += minute;
  log.note(failed({ projectId: 'a' }));
  for (let n = 0; n < 30; n++) log.note(failed({ projectId: 'c' }));
  expect(['a', 'b', 'c'].map((id) => log.read(id).failures.length)).toEqual([50, 0, 30]);
  expect(log.read('b').requests).toMatchObject([{ requests: 50, failures: 50 }]);
  // One without failures stays as long as it is used.
  at += minute;
  log.note(request({ projectId: 'b' }));
  log.note(request({ projectId: 'd' }));
  expect(['a', 'b', 'c', 'd'].filter((id) => log.read(id).requests.length > 0)).toEqual(['b', 'c', 'd']);
  for (const projectId of ['e', 'f', 'g']) log.note(request({ projectId }));
  expect(['a', 'c', 'd', 'e', 'f', 'g'].filter((id) => log.read(id).requests.length > 0)).toHaveLength(3);
});

it('cuts long texts, and leaves out the query string', () => {
  const log = openProjectLog(() => 0);
  const statement = `select ${'x'.repeat(5_000)}`;
  log.note(failed({ statement, path: `/tables/t?email=eq.secret` }));
  log.note(failed({ statement: () => 'from a function' }));
  const [second, first] = log.read('p').failures;
  expect(first?.statement).toHaveLength(1_001);
  expect(first?.path).toBe('/tables/t');
  expect(second?.statement).toBe('from a function');
});

it('ignores requests of no project, and slow ones that are no statements', () => {
  const log = openProjectLog(() => 0);
  log.note(failed({ projectId: undefined }));
  log.note(request({ ms: 60_000, route: '/api/dbaas/v2/projects/:slug/export' }));
  expect(log.read('p')).toMatchObject({ failures: [], slow: [], requests: [{ requests: 1, slow: 0 }] });
});
