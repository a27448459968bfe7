import { describe, expect, it } from 'vitest';
import { readEmail, readNewEmail } from './emails.ts';

const key = (text: string) => readEmail(text).key;

describe('e-mails', () => {
  it('are kept as typed, without blanks around them', () => {
    expect(readEmail(' \t\u00a0Ada.Lovelace@Example.COM\r\n\ufeff')).toEqual({
      typed: 'Ada.Lovelace@Example.COM',
      key: 'ada.lovelace@example.com',
    });
    expect(readEmail('Ａｄａ＠example.com').typed).toBe('Ａｄａ＠example.com');
  });

  it.each([
    ['ADA@EXAMPLE.COM', 'ada@example.com'],
    ['caf\u00e9@example.com', 'cafe\u0301@example.com'],
    ['CAFE\u0301@example.com', 'caf\u00e9@example.com'],
    ['ＡＤＡ＠ＥＸＡＭＰＬＥ．ＣＯＭ', 'ada@example.com'],
    ['ada\ufe6bexample.com', 'ada@example.com'],
    ['\u{1d4d0}da@example.com', 'ada@example.com'],
    ['\ufb01nn@example.com', 'finn@example.com'],
    ['\u212bse@example.com', '\u00e5se@example.com'],
    ['K\u212a@example.com', 'kk@example.com'],
    ['ΟΔΟΣ@example.com', 'οδοσ@example.com'],
    ['οδος@example.com', 'οδοσ@example.com'],
    ['STRA\u1e9eE@example.com', 'stra\u00dfe@example.com'],
    ['\u0130rem@example.com', 'i\u0307rem@example.com'],
    ['I\u0307rem@example.com', '\u0130rem@example.com'],
  ])('%s and %s are the same', (one, other) => {
    expect(key(one)).toBe(key(other));
  });

  it.each([
    // The dotted and the dotless Turkish i are different letters, regardless of the machine's locale.
    ['\u0131rem@example.com', 'irem@example.com'],
    ['\u0130rem@example.com', 'irem@example.com'],
    ['stra\u00dfe@example.com', 'strasse@example.com'],
    ['\u0430da@example.com', 'ada@example.com'],
    ['caf\u00e9@example.com', 'cafe@example.com'],
    ['ada+1@example.com', 'ada@example.com'],
    ['a.da@example.com', 'ada@example.com'],
  ])('%s and %s are two', (one, other) => {
    expect(key(one)).not.toBe(key(other));
  });

  it('has a key that is its own key, for every character there is', () => {
    const broken: string[] = [];
    for (let point = 0; point <= 0x10ffff; point++) {
      const character = String.fromCodePoint(point);
      // Most code points are refused.
      if (/\p{C}/u.test(character)) continue;
      for (const text of [`${character}@b`, `Σ\u0301${character}@b`]) {
        const first = keyOrNull(text);
        if (first !== null && keyOrNull(first) !== first) broken.push(point.toString(16));
      }
    }
    expect(broken).toEqual([]);
  });

  it.each([
    ['', /empty/],
    [' \n\t', /empty/],
    ['ada', /must be an email address/],
    ['@', /must be an email address/],
    ['@example.com', /must be an email address/],
    ['ada@', /must be an email address/],
    ['ada@@example.com', /must be an email address/],
    ['ada@example.com@example.com', /must be an email address/],
    ['ada@example.com＠evil.com', /must be an email address/],
    ['＠', /must be an email address/],
    ['ada lovelace@example.com', /spaces/],
    ['ada\u00a0l@example.com', /spaces/],
    ['ada\u3000l@example.com', /spaces/],
    ['ada@example.com\nBcc: eve@example.com', /spaces/],
    ['ada\u00a8@example.com', /spaces/],
    ['ada\0@example.com', /spaces/],
    ['ada\u007f@example.com', /spaces/],
    ['a\u200dda@example.com', /invisible/],
    ['a\u200cda@example.com', /invisible/],
    ['a\u200bda@example.com', /invisible/],
    ['a\u00adda@example.com', /invisible/],
    ['a\ufeffda@example.com', /invisible/],
    ['ada\u202emoc.elpmaxe@x', /invisible/],
    ['\u2066ada\u2069@example.com', /invisible/],
    ['ada\ufe0f@example.com', /invisible/],
    ['ada\u3164@example.com', /invisible/],
    ['ada\u034f@example.com', /invisible/],
    ['ada\u2800@example.com', /invisible/],
    ['ada\u{e0041}@example.com', /invisible/],
    ['ada\ue000@example.com', /invisible/],
    ['ada\u0378@example.com', /invisible/],
    ['ada\ud800@example.com', /surrogate/],
    ['ada\udc00@example.com', /surrogate/],
  ])('refuses %j', (text, problem) => {
    expect(() => readEmail(text)).toThrow(problem);
  });

  it('has at most 254 characters, whatever they are made of', () => {
    for (const letter of ['a', 'é', '\u0130', '\u{1f600}']) {
      const longest = `${letter.repeat(252)}@b`;
      expect(readEmail(`  ${longest}  `).typed).toBe(longest);
      expect(() => readEmail(`${letter}${longest}`)).toThrow('email: must have at most 254 characters');
    }
    expect(() => readEmail('a'.repeat(10_000_000))).toThrow(/254/);
    expect(() => readEmail(`${' '.repeat(10_000_000)}`)).toThrow(/empty/);
  });

  it('has a key that an index can hold', () => {
    expect(() => readEmail(`${'\ufdf5'.repeat(252)}@b`)).toThrow(/too long/);
  });

  it('names the field, as a fault of the caller', () => {
    expect(() => readEmail('x', 'new_email')).toThrow(
      expect.objectContaining({
        status: 400,
        code: 'invalid_request',
        details: [{ path: 'new_email', problem: expect.stringContaining('must be an email address') }],
      }),
    );
  });
});

describe('a new e-mail', () => {
  it.each([
    ...[
      'ada@example.com',
      'Ada.Lovelace+tag@Example.COM',
      "o'brien@example.co.uk",
      'a@b',
      'root@localhost',
      'a@x-y.io',
    ],
    ...[
      "!#$%&'*+/=?^_`{|}~-.@example.com",
      '_@x.io',
      '1@2.3',
      'a..b@docomo.example',
      '.a.@example.com',
      'a@1x.io',
    ],
    ...[
      'müller@bücher.example',
      'caf\u0065\u0301@example.com',
      '用户@例子.公司',
      'имя@почта.рф',
      'नाम@उदाहरण.भारत',
    ],
    ...[
      'Ａｄａ＠ＥＸＡＭＰＬＥ．ＣＯＭ',
      '\u{1f600}@example.com',
      'a@xn--bcher-kva.example',
      'a@\u{1f4a9}.la',
    ],
    `${'a'.repeat(64)}@example.com`,
    `a@${'b'.repeat(63)}.${'c'.repeat(63)}.${'d'.repeat(63)}.${'e'.repeat(59)}`,
  ])('can be %s', (text) => {
    expect(readNewEmail(text)).toEqual(readEmail(text));
  });

  it.each([
    ...[
      '<script>@x.io',
      'a@x.io>',
      '<a@x.io>',
      'a<b@x.io',
      '"a b"@x.io'.replace(' ', ''),
      'a"@x.io',
      'a(b)@x.io',
    ],
    ...[
      'a,b@x.io',
      'a;b@x.io',
      'a:b@x.io',
      'a\\\\b@x.io',
      '[a]@x.io',
      'mailto:a@x.io',
      '＜a＞@x.io',
      '‹a›@x.io',
    ],
    ...[
      'a@x..io',
      'a@.x.io',
      'a@x.io.',
      'a@.',
      'a@..',
      'a@-x.io',
      'a@x-.io',
      'a@x.-io',
      'a@x.io-',
      'a@-',
      'a@x_y.io',
    ],
    ...[
      'a@[127.0.0.1]',
      'a@x.io/path',
      'a@x.io?q',
      'a@x.io#f',
      'a@x.io:25',
      'a@x,y',
      'a@x;y',
      'a@"x"',
      "a@x'y.io",
      'a@x%2eio',
    ],
    ...[
      'a@x\u2026io',
      'a@x\u3002io',
      'a@x\uff61io',
      'a@\u2100.io',
      'a@x.i\u2024\u2024o',
      'a@x＞.io',
      'a@\u0301x.io',
      'a@x&y.io',
    ],
    `${'a'.repeat(65)}@example.com`,
    `${'é'.repeat(33)}@example.com`,
    `a@${'b'.repeat(64)}.io`,
    `a@${'é'.repeat(60)}.io`,
  ])('is not %s', (text) => {
    expect(() => readNewEmail(text)).toThrow(
      expect.objectContaining({ status: 400, code: 'invalid_request' }),
    );
  });

  it('can be looked for, and sent again by who has it, even if it would not be taken now', () => {
    for (const old of ['<script>@x.io', 'a@x..io', `${'a'.repeat(100)}@x.io`]) {
      expect(readEmail(old).typed).toBe(old);
      expect(readNewEmail(old.toUpperCase(), old).typed).toBe(old.toUpperCase());
      expect(() => readNewEmail(old, 'b@x.io')).toThrow();
    }
  });

  it('is decided quickly, whatever it is made of', () => {
    const before = performance.now();
    for (const part of ['a', '-', '.', 'a-', 'a.', '\u0301', 'é'])
      for (const text of [`${part.repeat(120)}@${part.repeat(120)}`, `a@${part.repeat(120)}!`])
        for (let n = 0; n < 100; n++) {
          try {
            readNewEmail(text);
          } catch {}
        }
    expect(performance.now() - before).toBeLessThan(5_000);
  });
});

function keyOrNull(text: string): string | null {
  try {
    return key(text);
  } catch {
    return null;
  }
}
