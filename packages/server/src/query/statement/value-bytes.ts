// The most bytes that PostgreSQL stores for a value of a column: `constant` plus `factor` times the bytes of its text. In SQL, and
// an allowlist: a type that is not known here has no such bound. A type is judged with its modifier.
const firstUserOid = '16384';
const equals = 'operator(pg_catalog.=)';
const plus = 'operator(pg_catalog.+)';

/**
 * Types of a varying size. Numbers: digits in pairs of bytes, after a header of 8. Addresses: 18 bytes for `::`. JSON: `[1,1]`
 * takes 12 bytes for two characters.
 */
const varying = `(values ('text', 0, 1), ('varchar', 0, 1), ('bpchar', 0, 1), ('json', 0, 1), ('bytea', 0, 1),
      ('numeric', 16, 1), ('inet', 24, 1), ('cidr', 24, 1), ('jsonb', 24, 8)) as varying (name, constant, factor)`;

/** Built in with a fixed size, or an enum. */
export const isFixed = (type: string) => `${type}.typlen operator(pg_catalog.>) 0
  and (${type}.typtype ${equals} 'b' and ${type}.oid operator(pg_catalog.<) ${firstUserOid} or ${type}.typtype ${equals} 'e')`;

/** `char(n)` is padded with blanks to its length. A modifier is 4 larger than the length. */
const paddingOf = (type: string, modifier: string) => `case when ${type}.typname ${equals} 'bpchar'
    then greatest(${modifier} operator(pg_catalog.-) 4, 0) else 0 end`;

/** One row for a type that is not an array, or none. */
const scalarBytes = (type: string, modifier: string) => `
  select ${type}.typlen::pg_catalog.int8 as constant, 0 as factor where ${isFixed(type)}
  union all
  select varying.constant ${plus} ${paddingOf(type, modifier)}, varying.factor
  from ${varying}
  where varying.name::pg_catalog.name ${equals} ${type}.typname and ${type}.oid operator(pg_catalog.<) ${firstUserOid}`;

/** A header, six dimensions of which each has two braces of its own, and the bitmap of nulls. */
const arrayConstant = 40;
const dimensionFactor = 4;
/** What each element takes beside its bytes: its header and its alignment. */
const elementBytes = 7;

/**
 * One row for a type with a bound, otherwise none: `constant` and `factor`. `type`: the alias of a row of pg_type. Each element of
 * an array has a character and a delimiter of its own, so the shortest elements grow most. The modifier is that of the elements.
 */
export const valueBytes = (type: string, modifier: string) => `${scalarBytes(type, modifier)}
  union all
  select ${arrayConstant}, greatest(${dimensionFactor},
    (stored.constant ${plus} stored.factor ${plus} ${elementBytes} ${plus} 1) operator(pg_catalog./) 2)
  from pg_catalog.pg_type as element
  cross join lateral (${scalarBytes('element', modifier)}) as stored
  where element.typarray ${equals} ${type}.oid and ${type}.oid operator(pg_catalog.<) ${firstUserOid}
    and element.typname operator(pg_catalog.<>) 'jsonb'`;
