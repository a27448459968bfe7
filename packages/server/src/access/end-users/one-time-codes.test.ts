import { expect, it } from 'vitest';
import { hashCode, isCode, makeCode } from './one-time-codes.ts';

it('have their form, use every digit, and no two are the same', () => {
  const codes = Array.from({ length: 500 }, makeCode);
  for (const code of codes) expect(isCode(code)).toBe(true);
  expect(new Set(codes).size).toBe(500);
  expect(new Set(codes.flatMap((code) => [...code.slice(8)])).size).toBe(62);
});

it('are told from anything else', () => {
  const code = makeCode();
  const spellings = [
    ` ${code}`,
    `${code}\n`,
    `${code}0`,
    code.slice(0, -1),
    code.slice(8),
    code.toUpperCase(),
  ];
  for (const other of [...spellings, '', 'rh_code_', code.replace('code', 'ref'), code.replace(/.$/, 'é')]) {
    expect(isCode(other)).toBe(false);
  }
});

it('hash to 32 bytes, each to its own', () => {
  const code = makeCode();
  expect(hashCode(code).length).toBe(32);
  expect(hashCode(code).equals(hashCode(code))).toBe(true);
  expect(hashCode(code).equals(hashCode(makeCode()))).toBe(false);
});
