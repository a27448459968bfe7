import { expect, it } from 'vitest';
import { formatLsn, parseLsn, segmentName, segmentStart } from './lsn.ts';

const size = 16 * 1024 * 1024;

it('reads and writes positions in the WAL', () => {
  expect(parseLsn('16/B374D848')).toBe(0x16_b374_d848n);
  expect(formatLsn(0x16_b374_d848n)).toBe('16/B374D848');
  expect(formatLsn(parseLsn('0/1'))).toBe('0/1');
  expect(() => parseLsn('16')).toThrow('not a position');
});

it("names WAL files as PostgreSQL's pg_walfile_name does", () => {
  expect(segmentName(1, parseLsn('0/15D6A30'), size)).toBe('000000010000000000000001');
  expect(segmentName(2, parseLsn('1A/FF000000'), size)).toBe('000000020000001A000000FF');
  expect(segmentName(1, parseLsn('1/0'), size)).toBe('000000010000000100000000');
  expect(segmentStart('000000020000001A000000FF', size)).toBe(parseLsn('1A/FF000000'));
});
