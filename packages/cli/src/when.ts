// Times on the command line: 30d, 12h, 45m, or a date with or without a time.
import { InvalidArgumentError } from 'commander';

const unitSeconds: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 };

/** The seconds in 45s, 30m, 24h, 7d or 2w. */
export function parseDuration(text: string): number {
  const seconds = findDuration(text);
  if (seconds === null) throw new InvalidArgumentError('Use a duration such as 45s, 30m, 24h, 7d or 2w.');
  return seconds;
}

/** A point in time as ISO 8601 in UTC: a duration from `now` on, or a date. */
export function parseWhen(text: string, now = Date.now()): string {
  return pointAt(text, (milliseconds) => now + milliseconds);
}

/** The same for what has happened: a duration before `now`, or a date. */
export function parsePast(text: string, now = Date.now()): string {
  return pointAt(text, (milliseconds) => now - milliseconds);
}

/** For restores: a duration before `now`, or a time as it was given, with all its digits. The service checks it. */
export function parseMoment(text: string, now = Date.now()): string {
  return findDuration(text) === null ? text : parsePast(text, now);
}

function pointAt(text: string, from: (milliseconds: number) => number): string {
  const seconds = findDuration(text);
  const time = seconds === null ? findTime(text) : from(seconds * 1000);
  if (time === null || Number.isNaN(new Date(time).getTime())) {
    throw new InvalidArgumentError(
      'Use a duration or a time such as 30d, 12h, 2027-01-31 or 2027-01-31T09:00Z (with a time zone).',
    );
  }
  return new Date(time).toISOString();
}

/** To the minute, for people. */
export function formatTime(iso: string | null | undefined): string {
  return iso ? `${iso.slice(0, 16).replace('T', ' ')} UTC` : '-';
}

function findDuration(text: string): number | null {
  const [, count, unit] = /^(\d{1,10})([smhdw])$/.exec(text.trim()) ?? [];
  return count && unit ? Number(count) * (unitSeconds[unit] ?? 0) : null;
}

function findTime(text: string): number | null {
  const [, date, time, zone] =
    /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?)(Z|[+-]\d\d:\d\d))?$/i.exec(text.trim()) ?? [];
  if (!date) return null;
  // JavaScript reads 31 February as 3 March.
  const day = new Date(`${date}T00:00Z`);
  if (Number.isNaN(day.getTime()) || !day.toISOString().startsWith(date)) return null;
  return time ? Date.parse(`${date}T${time}${zone?.toUpperCase()}`) : day.getTime();
}
