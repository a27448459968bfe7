import { describe, expect, it } from 'vitest';
import { formatTime, parseDuration, parseMoment, parsePast, parseWhen } from './when.ts';

const now = Date.parse('2026-11-14T09:30:00Z');

describe('parseDuration', () => {
  it.each([
    ['0s', 0],
    ['45m', 2700],
    ['24h', 86_400],
    ['30d', 2_592_000],
    ['2w', 1_209_600],
  ])('reads %s', (text, seconds) => expect(parseDuration(text)).toBe(seconds));

  it.each(['', '5', 'h', '-1h', '1.5h', '1 h', '1y', '99999999999s'])('refuses "%s"', (text) =>
    expect(() => parseDuration(text)).toThrow('Use a duration such as'),
  );
});

describe('parseWhen', () => {
  it.each([
    ['45m', '2026-11-14T10:15:00.000Z'],
    ['30d', '2026-12-14T09:30:00.000Z'],
    ['2027-01-31', '2027-01-31T00:00:00.000Z'],
    ['2027-01-31T09:00Z', '2027-01-31T09:00:00.000Z'],
    ['2027-01-31T09:00:30.5+02:00', '2027-01-31T07:00:30.500Z'],
  ])('reads %s', (text, iso) => expect(parseWhen(text, now)).toBe(iso));

  it.each([
    '',
    'tomorrow',
    '2027',
    '2027-02-31',
    '2027-13-01',
    '2027-01-31T09:00',
    '2027-01-31T25:00Z',
    '9999999999w',
  ])('refuses "%s"', (text) => expect(() => parseWhen(text, now)).toThrow('Use a duration or a time'));
});

describe('parsePast', () => {
  it.each([
    ['45m', '2026-11-14T08:45:00.000Z'],
    ['7d', '2026-11-07T09:30:00.000Z'],
    ['2027-01-31', '2027-01-31T00:00:00.000Z'],
  ])('reads %s', (text, iso) => expect(parsePast(text, now)).toBe(iso));

  it('refuses what is neither a duration nor a time', () =>
    expect(() => parsePast('yesterday', now)).toThrow('Use a duration or a time'));
});

it('the moment of a restore is a duration ago, or keeps all its digits', () => {
  expect(parseMoment('10m', now)).toBe('2026-11-14T09:20:00.000Z');
  expect(parseMoment('2026-11-14T09:20:00.123456Z', now)).toBe('2026-11-14T09:20:00.123456Z');
});

it('shows times to the minute, and a dash for null', () => {
  expect(formatTime('2026-11-14T09:30:12.123Z')).toBe('2026-11-14 09:30 UTC');
  expect(formatTime(null)).toBe('-');
});
