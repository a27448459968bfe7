// Parses the order of rows: `order=price.desc.nullslast,name`.
import { type Field, fail, isAtEnd, match, open, readField, shorten, spell, take } from './scanner.ts';

export type Order = Readonly<{
  field: Field;
  isDescending: boolean;
  /** The default is PostgreSQL's: nulls sort as larger than all other values. */
  nullsFirst: boolean;
}>;

const maxFields = 32;
const suffix = /\.(asc|desc|nullsfirst|nullslast)(?=[.,]|$)/y;

export function readOrder(parameter: string, text: string): Order[] {
  const scanner = open(parameter, text);
  const order: Order[] = [];
  const named = new Set<string>();
  do {
    if (order.length === maxFields) fail(scanner, `more than ${maxFields} columns are named`);
    match(scanner, /\s*/y);
    const at = scanner.at;
    const field = readField(scanner);
    if (scanner.text[scanner.at] === '(')
      fail(scanner, 'rows cannot be ordered by a column of another table', at);
    const name = spell(field);
    if (named.has(name)) fail(scanner, `"${shorten(name)}" is named twice`, at);
    named.add(name);
    let direction: string | undefined;
    let nulls: string | undefined;
    for (let word = match(scanner, suffix)?.[1]; word; word = match(scanner, suffix)?.[1]) {
      if (word.startsWith('nulls') ? nulls : (direction ?? nulls)) fail(scanner, `unexpected ".${word}"`);
      if (word.startsWith('nulls')) nulls = word;
      else direction = word;
    }
    const isDescending = direction === 'desc';
    order.push({ field, isDescending, nullsFirst: nulls ? nulls === 'nullsfirst' : isDescending });
  } while (take(scanner, ','));
  if (!isAtEnd(scanner))
    fail(scanner, 'expected .asc, .desc, .nullsfirst, .nullslast or a comma after a name');
  return order;
}
