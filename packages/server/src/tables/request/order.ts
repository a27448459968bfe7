// `order=price.desc.nullslast,name`.
import { type Field, fail, isAtEnd, match, open, readField, shorten, spell, take } from './scanner.ts';

export type Order = Readonly<{
  field: Field;
  isDescending: boolean;
  /** As PostgreSQL has it: nulls count as larger than everything. */
  nullsFirst: boolean;
}>;

const maxFields = 32;
const suffix = /\.(asc|desc|nullsfirst|nullslast)(?=[.,]|$)/y;

export function readOrder(parameter: string, text: string): Order[] {
  const source = open(parameter, text);
  const order: Order[] = [];
  const named = new Set<string>();
  do {
    if (order.length === maxFields) fail(source, `more than ${maxFields} columns are named`);
    match(source, /\s*/y);
    const at = source.at;
    const field = readField(source);
    if (source.text[source.at] === '(')
      fail(source, 'rows cannot be ordered by a column of another table', at);
    const name = spell(field);
    if (named.has(name)) fail(source, `"${shorten(name)}" is named twice`, at);
    named.add(name);
    let direction: string | undefined;
    let nulls: string | undefined;
    for (let word = match(source, suffix)?.[1]; word; word = match(source, suffix)?.[1]) {
      if (word.startsWith('nulls') ? nulls : (direction ?? nulls)) fail(source, `".${word}" is too much`);
      if (word.startsWith('nulls')) nulls = word;
      else direction = word;
    }
    const isDescending = direction === 'desc';
    order.push({ field, isDescending, nullsFirst: nulls ? nulls === 'nullsfirst' : isDescending });
  } while (take(source, ','));
  if (!isAtEnd(source)) fail(source, 'after a name come .asc, .desc, .nullsfirst, .nullslast or a comma');
  return order;
}
