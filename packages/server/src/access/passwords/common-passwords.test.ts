import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { isCommon } from './common-passwords.ts';
import { checkPassword } from './passwords.ts';

describe('common passwords', () => {
  it.each([
    'password',
    'Password123',
    '12345678',
    'QWERTYUIOP',
    'P@ssw0rd',
    'iloveyou',
    'correcthorsebatterystaple',
  ])('knows %s', (password) => {
    expect(isCommon(password)).toBe(true);
  });

  it.each([
    '',
    'tree-lamp-violin-9',
    '# ',
    '# Permission is hereby granted, free of charge, to any person obtaining',
    '#',
  ])('does not know %j', (password) => {
    expect(isCommon(password)).toBe(false);
  });

  it.each([
    ...[
      'password1',
      'password2024',
      'Password2024!',
      'PASSWORD!!!',
      '2024password',
      '!password!',
      '123password123',
    ],
    ...[
      'password12345678901234567890',
      ' password ',
      'pass-word-1',
      'p.a.s.s.w.o.r.d',
      'password\u0661',
      'ｐａｓｓｗｏｒｄ9',
    ],
    ...['passwordpassword', 'PasswordPassword1', 'dragondragon7', 'passpasspass', '1password1password1'],
    ...[
      'p4ssw0rd99',
      'P@$$w0rd2023',
      '$unshine12',
      'princes$1',
      '4dm1n2024',
      '1loveyou!',
      'pa55word-7',
      '5ummer2024',
    ],
    ...[
      'Summer2024!',
      'winter2023',
      'Dragon1990',
      'monkey1!',
      'letmein2',
      'Welcome01',
      'qwerty2024',
      'iloveyou3000',
    ],
    ...[
      '123456789012',
      '12345678!',
      '!12345678',
      '2024-12345678',
      '12-34-56-78',
      '1111111111',
      '20242024',
      '1212121212!',
    ],
    ...['aaaaaaaaaa', 'abcabcabc', 'abababab', '!?!?!?!?', 'ééééé'],
  ])('knows what people make of one: %s', (password) => {
    expect(isCommon(password)).toBe(true);
  });

  it.each([
    ...[
      'correct horse',
      'correct horse battery',
      'battery staple',
      'tr0ub4dor and 3',
      'set for you',
      'another one',
    ],
    ...[
      'dragon monkey summer',
      'passwords are hard',
      'my password is long',
      'monkey-lamp-violin',
      'sunset over paris',
    ],
    ...[
      'al8213-77',
      'x7391-4482-1938',
      '7f3a9c2e51',
      '83920174',
      '4829-1057-3364',
      'kq9vz2mw',
      'Zr7!pLq2',
      'é7kfü29x',
    ],
    ...['密码是很长的一个', 'пароль-кит-дом', 'xkcd-936-horse'],
  ])('lets a good one through: %s', (password) => {
    expect(isCommon(password)).toBe(false);
  });

  it('lets random ones through, of letters, of words and of digits', () => {
    const refused: string[] = [];
    for (let n = 0; n < 2_000; n++) {
      const bytes = createHash('sha256').update(`${n}`).digest();
      const hex = bytes.toString('hex');
      const random = [
        bytes.toString('base64url').slice(0, 11),
        hex.slice(0, 10),
        String(bytes.readBigUInt64BE(8)).slice(0, 14),
        `${hex.slice(0, 6)}-${hex.slice(6, 12)}`,
      ];
      refused.push(...random.filter(isCommon));
    }
    expect(refused).toEqual([]);
  });

  it('is decided quickly, whatever a password is made of', () => {
    const before = performance.now();
    for (const part of ['1', 'a', '1a', 'a1', '!', '1!a', 'password', 'pass1'])
      for (let n = 0; n < 20; n++) isCommon(part.repeat(1_024 / part.length));
    expect(performance.now() - before).toBeLessThan(5_000);
  });

  it('are words too: each once, sorted, in lower case', () => {
    const text = readFileSync(new URL('../../../data/common-words.txt', import.meta.url), 'utf8');
    const entries = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
    expect(entries).toEqual([...new Set(entries)].sort());
    for (const entry of entries) expect(entry).toMatch(/^[a-z]{4,7}$/);
  });

  it('are a list of passwords that would be taken otherwise, each once, in lower case', () => {
    const text = readFileSync(new URL('../../../data/common-passwords.txt', import.meta.url), 'utf8');
    const entries = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
    expect(entries.length).toBeGreaterThan(1_000);
    expect(new Set(entries).size).toBe(entries.length);
    for (const entry of entries) {
      expect(() => checkPassword(entry), entry).not.toThrow();
      expect(entry.toLowerCase().trim()).toBe(entry);
    }
  });
});
