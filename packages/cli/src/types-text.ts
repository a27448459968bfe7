// A project's catalog as TypeScript. Values have the types that they have in JSON responses. Each enum and composite type
// is written once and referenced, because a type may contain another many times. Everything is sorted by name, so that the
// same schema always gives the same text.
import type { Catalog, ColumnRow, Relation, RoutineRow, TypeRow } from './types-catalog.ts';
import { type Field, type Shape, sorted, stringLiteral, writeShape } from './types-shapes.ts';

/** The type of bigint and numeric values: the client's option of the same name. */
export type Numbers = 'number' | 'string' | 'bigint';

type Resolver = {
  /** `dimensions`: as declared, for arrays. `isInside`: the value is part of a composite value. */
  nameOf(oid: number, dimensions?: number, isInside?: boolean): string;
  find(oid: number): TypeRow | undefined;
  /** Enums and composite types that were named or belong to a chosen schema. */
  used(): TypeRow[];
};

export function writeTypes(project: string, catalog: Catalog, numbers: Numbers): string {
  const resolver = openResolver(catalog.types, numbers);
  const chosen = catalog.schemas.filter(({ isChosen }) => isChosen);
  const schemas = new Map(chosen.map(({ name }) => [name, emptySchema()]));
  const schemaOf = (name: string) => {
    const found = schemas.get(name) ?? emptySchema();
    schemas.set(name, found);
    return found;
  };
  for (const relation of catalog.relations) {
    const { tables, views } = schemaOf(relation.schema);
    (relation.isView ? views : tables).push(relationField(relation, catalog.relations, resolver));
  }
  for (const [schema, name, overloads] of byName(catalog.functions)) {
    schemaOf(schema).functions.push(functionField(name, overloads, catalog.relations, resolver));
  }
  // A composite type names further types: the list grows while it is processed.
  const written = new Set<TypeRow>();
  for (
    let left = resolver.used();
    left.length > 0;
    left = resolver.used().filter((type) => !written.has(type))
  ) {
    for (const type of left) {
      written.add(type);
      const { enums, composites } = schemaOf(type.schema);
      if (type.kind === 'e') enums.push(enumField(type));
      else composites.push(compositeField(type, resolver));
    }
  }
  const comments = new Map(chosen.map(({ name, comment }) => [name, comment]));
  const database = [...schemas].map(([name, schema]) =>
    schemaField(name, schema, comments.get(name) ?? null),
  );
  return [
    `// Types of the project ${project}, made by \`rowhouse types\`: run it again when the schema has changed.`,
    '',
    // The client also returns a bigint for a number inside json that a double cannot hold.
    `export type Json = string | number${numbers === 'bigint' ? ' | bigint' : ''} | boolean | null | { [key: string]: Json | undefined } | Json[];`,
    '',
    `export type Database = ${writeShape(database.length > 0 ? sorted(database) : nothing, 0)};`,
  ].join('\n');
}

type Schema = Record<'tables' | 'views' | 'enums' | 'composites' | 'functions', Field[]>;

/** A type without keys. */
const nothing = 'Record<never, never>';
/** An input that accepts no keys: `{}` would accept any. */
const takesNothing = 'Record<string, never>';

function emptySchema(): Schema {
  return { tables: [], views: [], enums: [], composites: [], functions: [] };
}

function schemaField(name: string, schema: Schema, comment: string | null): Field {
  const section = (title: string, fields: Field[]): Field => ({
    name: title,
    shape: fields.length > 0 ? sorted(fields) : nothing,
  });
  const shape = [
    section('Tables', schema.tables),
    section('Views', schema.views),
    section('Enums', schema.enums),
    section('CompositeTypes', schema.composites),
    section('Functions', schema.functions),
  ];
  return { name, comment, shape };
}

function relationField(relation: Relation, relations: readonly Relation[], resolver: Resolver): Field {
  const { columns, isView, takesInsert, takesUpdate } = relation;
  const field = (column: ColumnRow, isOptional: boolean, isNullable: boolean, comment?: string | null) => {
    const name = resolver.nameOf(column.type, column.dimensions);
    return { name: column.name, isOptional, shape: isNullable ? `${name} | null` : name, comment };
  };
  const row = columns
    .filter((column) => column.takesSelect)
    .map((column) =>
      field(column, false, column.isUnproven || !isRequired(column, resolver), column.comment),
    );
  const insert = columns
    .filter((column) => column.takesInsert)
    .map((column) => {
      const required = isRequired(column, resolver);
      // The catalog does not say whether the table behind a view requires a column that an insert leaves out.
      const optional = isView || !required || column.hasDefault || hasDefault(column.type, resolver);
      return field(column, optional, !required);
    });
  const update = columns
    .filter((column) => column.takesUpdate)
    .map((column) => field(column, true, !isRequired(column, resolver)));
  const input = (fields: Field[]) => (fields.length > 0 ? sorted(fields) : takesNothing);
  const shape: Field[] = [{ name: 'Row', shape: row.length > 0 ? sorted(row) : nothing }];
  // A table always has all three; a view has those that it accepts.
  if (takesInsert || !isView) shape.push({ name: 'Insert', shape: takesInsert ? input(insert) : 'never' });
  if (takesUpdate || !isView) shape.push({ name: 'Update', shape: takesUpdate ? input(update) : 'never' });
  const embeds = embedFields(relation, relations);
  if (embeds.length > 0) shape.push({ name: 'Embeds', shape: sorted(embeds) });
  return { name: relation.name, comment: relation.comment, shape };
}

/** By the names that `select` of the service takes. A name that could mean two things is left out, as the service refuses it. */
function embedFields({ embeds }: Relation, relations: readonly Relation[]): Field[] {
  const named = embeds.flatMap(({ target, isMany, isNullable, column }) => {
    const other = relations.find(({ oid }) => oid === target);
    if (!other) return [];
    const type = `Database[${JSON.stringify(other.schema)}]["${other.isView ? 'Views' : 'Tables'}"][${JSON.stringify(other.name)}]`;
    const shape = isMany ? `${type}[]` : isNullable ? `${type} | null` : type;
    return [other.name, ...(column === null ? [] : [column])].map((name) => ({ name, shape }));
  });
  return named.filter(({ name }) => named.filter((one) => one.name === name).length === 1);
}

function functionField(
  name: string,
  overloads: RoutineRow[],
  relations: readonly Relation[],
  resolver: Resolver,
): Field {
  const shapes = overloads.map((routine): Field[] => [
    { name: 'Args', shape: argumentsOf(routine, resolver) },
    { name: 'Returns', shape: returnsOf(routine, relations, resolver) },
  ]);
  const comment = overloads.map((routine) => routine.comment).filter((text) => text !== null);
  const [first = []] = shapes;
  return {
    name,
    comment: comment.length > 0 ? comment.join('\n\n') : null,
    shape: shapes.length > 1 ? { either: shapes } : first,
  };
}

function argumentsOf({ parameters, defaults, isStrict }: RoutineRow, resolver: Resolver): Shape {
  const inputs = parameters.filter(({ mode }) => 'ibv'.includes(mode));
  const names = new Set(inputs.map(({ name }) => name));
  const fields = inputs.map(({ name, type }, index): Field => {
    const value = resolver.nameOf(type);
    return {
      name: name || unusedName(`$${index + 1}`, names),
      isOptional: index >= inputs.length - defaults,
      // PostgreSQL never calls a strict function with null.
      shape: isStrict ? value : `${value} | null`,
    };
  });
  return fields.length > 0 ? fields : takesNothing;
}

/** PostgreSQL's name for a parameter without one, unless another parameter has that name. */
function unusedName(name: string, taken: ReadonlySet<string>): string {
  return taken.has(name) ? unusedName(`${name}_`, taken) : name;
}

function returnsOf(routine: RoutineRow, relations: readonly Relation[], resolver: Resolver): Shape {
  const { parameters, returns, returnsSet } = routine;
  const outputs = parameters.filter(({ mode }) => 'obt'.includes(mode));
  const type = resolver.find(returns);
  // A single OUT parameter is a plain value; a table with one column is still a table.
  if (outputs.length > 1 || outputs.some(({ mode }) => mode === 't')) {
    const fields = outputs.map(
      ({ name, type: of }, index): Field => ({
        name: name || `column${index + 1}`,
        shape: `${resolver.nameOf(of)} | null`,
      }),
    );
    return returnsSet ? { listOf: fields } : fields;
  }
  const relation = type && relations.find(({ oid }) => oid === type.relation);
  if (relation) {
    const section = relation.isView ? 'Views' : 'Tables';
    const row = `${reference(relation.schema, section, relation.name)}["Row"]`;
    return returnsSet ? `${row}[]` : `${row} | null`;
  }
  const value = `${resolver.nameOf(returns)} | null`;
  return returnsSet ? `(${value})[]` : value;
}

function enumField(type: TypeRow): Field {
  const labels = (type.labels ?? []).map(stringLiteral);
  return {
    name: type.name,
    comment: type.comment,
    shape: labels.length > 0 ? { either: labels } : 'never',
  };
}

/** PostgreSQL enforces no constraint on composite values, so each field may be null. */
function compositeField(type: TypeRow, resolver: Resolver): Field {
  const fields = (type.fields ?? []).map(
    ({ name, type: of, dimensions }): Field => ({
      name,
      shape: `${resolver.nameOf(of, dimensions, true)} | null`,
    }),
  );
  return { name: type.name, comment: type.comment, shape: fields.length > 0 ? sorted(fields) : nothing };
}

function isRequired(column: ColumnRow, resolver: Resolver): boolean {
  return column.isRequired || domainsOf(column.type, resolver).some((domain) => domain.isRequired);
}

function hasDefault(type: number, resolver: Resolver): boolean {
  return domainsOf(type, resolver).some((domain) => domain.hasDefault);
}

function domainsOf(oid: number, resolver: Resolver): TypeRow[] {
  const domains: TypeRow[] = [];
  for (let type = resolver.find(oid); type?.kind === 'd'; type = resolver.find(type.base)) domains.push(type);
  return domains;
}

function openResolver(types: readonly TypeRow[], numbers: Numbers): Resolver {
  const byOid = new Map(types.map((type) => [type.oid, type]));
  const used = new Set(types.filter(({ isOwn }) => isOwn));
  return {
    find: (oid) => byOid.get(oid),
    used: () => [...used],
    nameOf: (oid, dimensions = 0, isInside = false) => {
      let brackets = '';
      let isPlain = !isInside;
      let type = byOid.get(oid);
      let declared = dimensions;
      while (type && (type.kind === 'd' || type.element !== 0)) {
        if (type.kind === 'd') {
          declared = type.dimensions || declared;
          isPlain = false;
        } else {
          brackets += '[]'.repeat(Math.min(Math.max(declared, 1), maxDimensions));
          declared = 0;
        }
        type = byOid.get(type.kind === 'd' ? type.base : type.element);
      }
      if (!type) return `unknown${brackets}`;
      if (type.kind !== 'e' && type.kind !== 'c') return plainName(type, numbers, isPlain) + brackets;
      used.add(type);
      return reference(type.schema, type.kind === 'e' ? 'Enums' : 'CompositeTypes', type.name) + brackets;
    },
  };
}

/** PostgreSQL's limit. No value has more dimensions, even if the column declares more. */
const maxDimensions = 6;

const plainNames = new Map([
  ['bool', 'boolean'],
  ...['int2', 'int4', 'float4', 'float8'].map((name) => [name, 'number'] as const),
  ...['json', 'jsonb'].map((name) => [name, 'Json'] as const),
  ['int2vector', 'number[]'],
  ['oidvector', 'string[]'],
  ['record', 'Record<string, unknown>'],
  ['void', '""'],
  ...['any', 'anyelement', 'anynonarray', 'anycompatible', 'anycompatiblenonarray', 'anyenum'].map(
    (name) => [name, 'unknown'] as const,
  ),
  ...['anyarray', 'anycompatiblearray'].map((name) => [name, 'unknown[]'] as const),
]);

/** Values of all other types are PostgreSQL's text. */
function plainName({ schema, name, kind }: TypeRow, numbers: Numbers, isPlain: boolean): string {
  if (schema !== 'pg_catalog')
    return name === 'hstore' && kind === 'b' ? 'Record<string, string | null>' : 'string';
  // The client converts by the type of the column: inside a composite value, and for a domain, digits stay a string.
  if (name === 'int8') return numbers === 'bigint' && !isPlain ? 'string' : numbers;
  // A bigint cannot hold a fraction.
  if (name === 'numeric') return numbers === 'number' ? 'number' : 'string';
  return plainNames.get(name) ?? 'string';
}

function reference(schema: string, section: string, name: string): string {
  return `Database[${stringLiteral(schema)}]["${section}"][${stringLiteral(name)}]`;
}

/** Groups overloads by name, in the order of their signatures. */
function byName(functions: readonly RoutineRow[]): [string, string, RoutineRow[]][] {
  const schemas = new Map<string, Map<string, RoutineRow[]>>();
  for (const routine of functions) {
    const names = schemas.get(routine.schema) ?? new Map<string, RoutineRow[]>();
    schemas.set(routine.schema, names);
    names.set(routine.name, [...(names.get(routine.name) ?? []), routine]);
  }
  return [...schemas].flatMap(([schema, names]) =>
    [...names].map(([name, overloads]): [string, string, RoutineRow[]] => [
      schema,
      name,
      overloads.sort((a, b) => (a.signature < b.signature ? -1 : 1)),
    ]),
  );
}
