// The sql`` tag: values become parameters, identifiers go through sql.id, fragments nest. Text is never interpolated.

export type Sql = { readonly text: string; readonly values: readonly unknown[]; readonly [fragment]: true };

const fragment = Symbol('sql fragment');

type Part = { literal: string } | { value: unknown };
const parts = new WeakMap<Sql, Part[]>();

export function sql(strings: TemplateStringsArray, ...inputs: unknown[]): Sql {
  const all: Part[] = [];
  strings.forEach((literal, index) => {
    all.push({ literal });
    if (index < inputs.length) {
      const input = inputs[index];
      const nested = isSql(input) ? parts.get(input) : undefined;
      if (nested) all.push(...nested);
      else all.push({ value: input });
    }
  });
  return build(all);
}

/** A quoted identifier. PostgreSQL truncates longer names silently, and may then find another object: refused here. */
sql.id = (name: string): Sql => {
  if (name === '' || name.includes('\0') || Buffer.byteLength(name) > 63) {
    throw new RangeError('An identifier has 1 to 63 bytes and no NUL.');
  }
  return build([{ literal: `"${name.replaceAll('"', '""')}"` }]);
};

/** A string literal, for statements that take no parameters (CREATE ROLE … PASSWORD). */
sql.literal = (value: string): Sql => {
  if (value.includes('\0')) throw new RangeError('A literal has no NUL.');
  return build([{ literal: ` E'${value.replaceAll('\\', '\\\\').replaceAll("'", "''")}'` }]);
};

/** The service's own text with many statements (a migration). Without parameters, `pg` uses the simple protocol. */
sql.script = (text: string): Sql => build([{ literal: text }]);

function build(all: Part[]): Sql {
  const values: unknown[] = [];
  let text = '';
  for (const part of all) {
    if ('literal' in part) text += part.literal;
    else text += `$${values.push(part.value)}`;
  }
  const result: Sql = { text, values, [fragment]: true };
  parts.set(result, all);
  return result;
}

function isSql(input: unknown): input is Sql {
  return typeof input === 'object' && input !== null && fragment in input;
}
