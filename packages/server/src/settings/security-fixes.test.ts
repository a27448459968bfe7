import { describe, expect, it } from 'vitest';
import { knownUntil, lackedByNode, lackedByPostgres, remedyOf } from './security-fixes.ts';

describe('the security fixes that a PostgreSQL lacks', () => {
  it.each([
    ['18.6', '18.7', 1, ''],
    ['18.4', '18.7', 2, ' and 18.6 (2026-08-13)'],
    ['18.3', '18.7', 3, ' and 18.6 (2026-08-13) and 18.4 (2026-05-14)'],
    ['18.0', '18.7', 4, ' and 18.6 (2026-08-13) and 18.4 (2026-05-14) and 18.2 (2026-02-12)'],
    ['17.11', '17.12', 1, ''],
    ['17.9', '17.12', 3, ' and 17.11 (2026-08-13) and 17.10 (2026-05-14)'],
    ['16.0', '16.16', 4, ' and 16.15 (2026-08-13) and 16.14 (2026-05-14) and 16.12 (2026-02-12)'],
  ])('of %s are those up to %s', (version, newest, releases, earlier) => {
    const lacked = lackedByPostgres(version);
    expect(lacked).toMatchObject({ newest, releases });
    expect(lacked?.found).toBe(
      `PostgreSQL ${version} lacks the security fixes of ${newest} (2026-11-12)${earlier}, among them the one for CVE-2026-6460, by which whoever can create tables can run code as the account that PostgreSQL runs as`,
    );
  });

  // 18.10 is later than 18.7, although its text sorts before it.
  it.each(['18.7', '18.8', '18.10', '17.12', '16.16', '19.0', '19beta3', '18devel', 'unknown', ''])(
    'of %j are none that are known',
    (version) => {
      expect(lackedByPostgres(version)).toBeNull();
    },
  );

  it('come with what to do', () => {
    const lacked = lackedByPostgres('17.9');
    if (!lacked) throw new Error('Nothing is lacking.');
    expect(remedyOf(lacked, false)).toContain('PostgreSQL 17.12');
    expect(remedyOf(lacked, true)).toContain('rowhouse servers adopt');
    expect(knownUntil).toMatch(/^\d{4}-\d\d-\d\d$/);
  });
});

describe('Node.js', () => {
  const at = (day: string) => Date.parse(day);
  it.each([
    ['20.20.2', '2026-04-29', false],
    ['20.20.2', '2026-05-01', true],
    ['v22.1.0', '2026-11-19', false],
    ['22.1.0', '2027-05-01', true],
    ['26.0.0', '2030-01-01', false],
  ])('%s on %s gets no fixes: %s', (version, day, isOver) => {
    expect(lackedByNode(version, at(day)) !== null).toBe(isOver);
  });
});
