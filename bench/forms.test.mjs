import { describe, expect, it } from 'vitest';
import { randomId } from './forms/project.mjs';
import { formsOf, toLua, toRequest } from './forms/requests.mjs';
import { summarize } from './forms/summary.mjs';
import { lastId } from './items.mjs';

const tokens = Array.from({ length: 50 }, (_, n) => `token${n}`);
const forms = formsOf({ key: 'rh_proj_a', accountKey: 'rh_acct_b', publishable: 'rh_pub_c' });
const named = (name) => forms.find((form) => form.name === name);

describe('the forms of a request', () => {
  it('have names of their own, and are compared with forms that exist', () => {
    const names = forms.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    for (const { base } of forms) if (base) expect(names).toContain(base);
  });

  it('ask for rows that the user sees, each in the address of its side', () => {
    const form = named('page by id as a user (own rows), from a browser');
    for (let n = 0; n < 100; n++) {
      const { id, path, options } = toRequest(form, true, tokens);
      const user = Number(options.headers.authorization.replace('Bearer token', ''));
      expect(id % tokens.length).toBe(user);
      expect(path).toBe(`/tables/notes?id=eq.${id}`);
      expect(options.headers).toMatchObject({ 'x-api-key': 'rh_pub_c', Origin: expect.any(String) });
    }
    expect(toRequest(form, false, tokens).path).toMatch(/^\/browser\/notes\/\d+$/);
  });

  it('ask for rows that exist', () => {
    for (const whose of ['any', 'own', 'team']) {
      for (let n = 0; n < 1_000; n++) {
        const id = randomId(whose, n % tokens.length, tokens.length);
        expect(id).toBeGreaterThan(0);
        expect(id).toBeLessThanOrEqual(lastId);
      }
    }
  });

  it('become Lua that sets again only what changes', () => {
    const { before, request } = toLua(named('insert with Idempotency-Key'), true, '/projects/bench', tokens);
    expect(before).toContain("sent['x-api-key'] = 'rh_proj_a'");
    expect(before).not.toContain('idempotency-key');
    expect(request).toContain("sent['idempotency-key'] = '' .. unique .. count .. ''");
    expect(request).toContain(`'{"item":' .. string.format("%d", id) .. ',"note":"bench"}'`);
    expect(request).toContain("wrk.format('POST', '/projects/bench/tables/sales', sent");
  });
});

describe('the summary of the forms', () => {
  const turn = (rate, theirs, own = 10) => ({
    ours: { rate, ms: [1, 2], own, requests: 1000 },
    theirs: { rate: theirs, ms: [2, 8] },
  });
  const chosen = [
    'page by id, X-API-Key',
    'page by id, Bearer',
    'page by id as a user (own rows), from a browser',
  ];

  it('compares turns, and names the goals that were not reached', () => {
    const [plain, bearer, user] = chosen;
    const measured = new Map([
      [plain, [turn(1000, 500), turn(2000, 500), turn(1000, 500)]],
      [bearer, [turn(960, 500), turn(1900, 500), turn(980, 500)]],
      [user, [turn(500, 100, 20), turn(1000, 500, 20), turn(500, 125, 20)]],
    ]);
    const { rows, tables, docs } = summarize(chosen.map(named), measured, []);
    expect(rows).toEqual([
      [bearer, '980', '500', '1.96', '1.92–3.80', '', '0.96', '0.95–0.98', '≥ 0.95'],
      [user, '500', '125', '4.00', '2.00–5.00', '≥ 4', '0.50', '0.50–0.50', '≥ 0.6'],
      [plain, '1000', '500', '2.00', '2.00–4.00', '', '', '', ''],
    ]);
    expect(tables.at(-1).rows).toEqual([
      [`${user}: × X-API-Key`, '0.50', '≥ 0.6'],
      [`${user}: CPU × X-API-Key`, '2.00', '≤ 1.6'],
    ]);
    expect(docs).toBeUndefined();
  });
});
