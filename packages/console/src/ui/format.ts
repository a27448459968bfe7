// How numbers and times are written on every screen.
const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'short' });
const numbers = new Intl.NumberFormat('en');
const dates = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'short' });

const steps: [Intl.RelativeTimeFormatUnit, number][] = [
  ['year', 31_536_000],
  ['month', 2_592_000],
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
];

export const formatNumber = (value: number) => numbers.format(value);
export const formatTime = (iso: string) => dates.format(new Date(iso));

/** "3 min. ago", "in 2 days". */
export function formatAge(iso: string, now = Date.now()): string {
  const seconds = (Date.parse(iso) - now) / 1000;
  const step = steps.find(([, size]) => Math.abs(seconds) >= size);
  return step ? relative.format(Math.trunc(seconds / step[1]), step[0]) : 'just now';
}

export function formatMb(mb: number): string {
  if (mb >= 1024) return `${trim(mb / 1024)} GB`;
  if (mb >= 1 || mb === 0) return `${trim(mb)} MB`;
  return `${Math.max(1, Math.round(mb * 1024))} KB`;
}

export const formatBytes = (bytes: number) => (bytes < 1024 ? `${bytes} B` : formatMb(bytes / 1_048_576));

export function formatDuration(ms: number): string {
  if (ms < 1000) return `${trim(ms)} ms`;
  return ms < 60_000
    ? `${trim(ms / 1000)} s`
    : `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

export const plural = (count: number, word: string, words = `${word}s`) =>
  `${formatNumber(count)} ${count === 1 ? word : words}`;

function trim(value: number): string {
  return String(value >= 100 ? Math.round(value) : Math.round(value * 10) / 10);
}
