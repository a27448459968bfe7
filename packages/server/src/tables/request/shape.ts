// The shape of a query string: all of it except the values that its filters compare with. Requests of one shape are usually
// compiled to the same statement with other parameters (`isParameterized` checks it), so that only the first of them has to
// be parsed and compiled.
import { decode } from './query-string.ts';
import { type PageRequest, pageParameters } from './request.ts';

export type Shape = Readonly<{
  /** The query string, still encoded, with a line break in place of each value. It contains no space. */
  text: string;
  /** The values, decoded, in the order of the query string. */
  values: readonly string[];
}>;

/** The longest query string that is taken apart. The shape of a longer one is all of it. */
const maxLength = 300;
/** A filter of a whole column by an operator whose SQL does not depend on the value: `price=gte.10`. */
const comparison = /^([A-Za-z_]\w*)=((?:eq|neq|gt|gte|lt|lte)\.)/;
const settings = new Set(pageParameters);

export function shapeOf(rawQuery: string): Shape {
  if (rawQuery.length > maxLength) return wholeShape(rawQuery);
  const values: string[] = [];
  const pieces = rawQuery.split('&').map((piece) => {
    const [start, name = '', operator = ''] = comparison.exec(piece) ?? [];
    if (start === undefined || settings.has(name)) return piece;
    values.push(decode(piece.slice(name.length + 1)).slice(operator.length));
    return `${start}\n`;
  });
  return values.length === 0 ? wholeShape(rawQuery) : { text: pieces.join('&'), values };
}

export function wholeShape(text: string): Shape {
  return { text, values: [] };
}

/** Whether the request's conditions are comparisons with exactly these values, and nothing else became a parameter. */
export function isParameterized(
  { where }: PageRequest,
  params: readonly string[],
  { values }: Shape,
): boolean {
  return (
    where.length === values.length &&
    params.length === values.length &&
    where.every(
      (one, index) =>
        one.is === 'test' && 'value' in one && one.value === values[index] && one.value === params[index],
    )
  );
}

/** The request with other values for its conditions. */
export function withValues(request: PageRequest, { values }: Shape): PageRequest {
  const where = request.where.map((one, index) => ({ ...one, value: values[index] }) as typeof one);
  return { ...request, where };
}
