// Converts intervals to PostgreSQL's default style. Our sessions write ISO 8601, which the parsers of PostgreSQL drivers
// silently read as an empty interval.

const iso =
  /^P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?)(\d+)(\.\d+)?S)?)?$/;

/** P1Y2M3DT4H5M6.5S → 1 year 2 mons 3 days 04:05:06.5. Text that is not ISO 8601 (infinity) stays unchanged. */
export function toPostgresInterval(text: string): string {
  const found = iso.exec(text);
  if (!found) return text;
  const [, years, months, days, hours = '', minutes = '', minus, seconds = '', fraction = ''] = found;
  const parts: string[] = [];
  // After a negative part, PostgreSQL writes the sign of a positive one.
  let isAfterNegative = false;
  for (const [value, unit] of [
    [years, 'year'],
    [months, 'mon'],
    [days, 'day'],
  ] as const) {
    if (value === undefined) continue;
    const isNegative = value.startsWith('-');
    parts.push(`${isAfterNegative && !isNegative ? '+' : ''}${value} ${unit}${value === '1' ? '' : 's'}`);
    isAfterNegative = isNegative;
  }
  if (hours || minutes || seconds) {
    const isNegative = hours.startsWith('-') || minutes.startsWith('-') || minus === '-';
    const sign = isNegative ? '-' : isAfterNegative ? '+' : '';
    parts.push(`${sign}${twoDigits(hours)}:${twoDigits(minutes)}:${twoDigits(seconds)}${fraction}`);
  }
  return parts.join(' ');
}

/** The same for the text of an array of any depth. NULL stays unchanged. */
export function toPostgresIntervals(text: string): string {
  const start = text.indexOf('{');
  const elements = text.slice(start).replace(/[^{},]+/g, (element) => {
    return element === 'NULL' ? element : `"${toPostgresInterval(element)}"`;
  });
  return text.slice(0, start) + elements;
}

function twoDigits(text: string): string {
  return text.replace('-', '').padStart(2, '0');
}
