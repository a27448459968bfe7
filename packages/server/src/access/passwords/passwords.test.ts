import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { checkGiven, checkPassword, formatHash, parseHash } from './passwords.ts';

describe('passwords', () => {
  it.each([
    '12345678',
    'é'.repeat(4),
    '\u{1f600}\u{1f600}',
    ' '.repeat(8),
    'x'.repeat(1_024),
    'é'.repeat(512),
  ])('takes %j', (password) => {
    expect(() => checkPassword(password)).not.toThrow();
  });

  it.each([
    ['', /8 to 1,024 bytes/],
    ['1234567', /8 to 1,024 bytes/],
    ['ééé', /8 to 1,024 bytes/],
    ['x'.repeat(1_025), /8 to 1,024 bytes/],
    ['é'.repeat(513), /8 to 1,024 bytes/],
    ['\u{1f600}'.repeat(257), /8 to 1,024 bytes/],
    ['12345678\0', /NUL/],
    ['\0'.repeat(8), /NUL/],
    ['1234567\ud83d', /surrogate/],
    ['\ude001234567', /surrogate/],
  ])('refuses %j', (password, problem) => {
    expect(() => checkPassword(password)).toThrow(problem);
  });

  it('compares a short one like any other, and nothing that cannot be kept', () => {
    for (const password of ['', 'x', 'ééé']) expect(() => checkGiven(password)).not.toThrow();
    for (const password of ['éééé\0', 'x\0', '\ud83d', 'x'.repeat(1_025)])
      expect(() => checkGiven(password)).toThrow();
  });

  it('names the field and never the password', () => {
    expect(() => checkPassword('hunter2', 'new_password')).toThrow(
      expect.objectContaining({
        status: 400,
        message: 'new_password: must be 8 to 1,024 bytes long in UTF-8',
        details: [{ path: 'new_password', problem: expect.not.stringContaining('hunter2') }],
      }),
    );
  });

  it('refuses 100 MB without looking through them', () => {
    const password = 'x'.repeat(100_000_000);
    const before = performance.now();
    for (let n = 0; n < 1_000; n++) expect(() => checkPassword(password)).toThrow();
    // Iterating over them a thousand times would take many seconds.
    expect(performance.now() - before).toBeLessThan(2_000);
  });
});

describe('the form of a hash', () => {
  const parts = { iterations: 600_000, salt: Buffer.alloc(16, 1), hash: Buffer.alloc(32, 255) };
  const text = '$pbkdf2-sha256$i=600000$AQEBAQEBAQEBAQEBAQEBAQ$//////////////////////////////////////////8';

  it('is as the contract says, and comes back as it went', () => {
    expect(formatHash(parts)).toBe(text);
    expect(parseHash(text)).toEqual(parts);
    for (const iterations of [1, 1_000, 10_000_000]) {
      const any = { iterations, salt: randomBytes(16), hash: randomBytes(32) };
      expect(parseHash(formatHash(any))).toEqual(any);
    }
  });

  it.each([
    '',
    text.slice(1),
    `${text}=`,
    `${text}\n`,
    ` ${text}`,
    text.replace('i=600000', 'i=0'),
    text.replace('i=600000', 'i=0600000'),
    text.replace('i=600000', 'i=-1'),
    text.replace('i=600000', 'i=1e6'),
    text.replace('i=600000', 'i=10000001'),
    text.replace('i=600000', 'i=99999999999999999999'),
    text.replace('i=600000', 'i='),
    text.replace('i=600000', '600000'),
    text.replace('sha256', 'sha512'),
    text.replace('sha256', 'SHA256'),
    text.replace('AQEB', 'AQE'),
    text.replace('AQEB', 'AQEBA'),
    text.replace('AQEB', 'AQ_B'),
    // The same bytes, with the unused bits set.
    text.replace('AQ$', 'AR$'),
    text.replace(/8$/, '9'),
    text.replace(/8$/, ''),
    `${text}$x`,
    text.repeat(100_000),
  ])('is nothing else (%#)', (other) => {
    expect(parseHash(other)).toBeNull();
  });
});
