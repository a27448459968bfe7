// The schemas that document the API also judge its input. Nothing is corrected, dropped or filled in.
import type { Problem } from '@rowhouse/api';
import type { FastifySchemaCompiler } from 'fastify';
import type Type from 'typebox';
import { Compile } from 'typebox/compile';
import { errors } from '../errors.ts';
import { isLarge } from '../query/json/large-json.ts';

const where: Record<string, string> = {
  body: 'the body',
  querystring: 'the query string',
  headers: 'the headers',
};

export const validatorCompiler: FastifySchemaCompiler<Type.TSchema> = ({ schema, httpPart = 'body' }) => {
  // A path parameter that is not well formed names nothing: the domain answers 404.
  if (httpPart === 'params') return (value: unknown) => ({ value });
  const validator = Compile(schema);
  const bounded = boundedLists(schema);
  const closed = (schema as { additionalProperties?: unknown }).additionalProperties === false;
  const optionalBody = httpPart === 'body' && !('required' in schema) && !('minProperties' in schema);
  return (input: unknown) => {
    let value = input;
    if (httpPart === 'querystring') value = readIntegers(schema, input as Record<string, unknown>);
    else if (optionalBody && (input === undefined || input === null)) value = {};
    const long = tooLong(bounded, value) ?? (closed ? tooMany(value) : null);
    if (long) return { error: errors.invalidRequest([long]) };
    try {
      if (validator.Check(value)) return { value };
      const problems = readable(validator.Errors(value), schema, where[httpPart] ?? httpPart);
      return { error: errors.invalidRequest(problems) };
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      return {
        error: errors.invalidRequest([{ path: '', problem: `${where[httpPart]} is nested too deeply` }]),
      };
    }
  };
};

type Bounded = { path: string; maxItems: number }[];

function boundedLists(schema: Type.TSchema): Bounded {
  const { properties = {} } = schema as { properties?: Record<string, { maxItems?: number }> };
  return Object.entries(properties).flatMap(([path, { maxItems }]) =>
    maxItems === undefined ? [] : [{ path, maxItems }],
  );
}

/** Before anything looks at the entries one by one, or at each pair of them: that can take minutes. */
function tooLong(bounded: Bounded, value: unknown): Problem | null {
  if (typeof value !== 'object' || value === null) return null;
  for (const { path, maxItems } of bounded) {
    const entry = (value as Record<string, unknown>)[path];
    if (Array.isArray(entry) && entry.length > maxItems) {
      return { path, problem: `must have at most ${maxItems} entries` };
    }
  }
  return null;
}

/** No body has so many names of its own; to tell each that is not known would take long. */
const maxNames = 1_000;

function tooMany(value: unknown): Problem | null {
  if (!isLarge(value) || Array.isArray(value)) return null;
  const { length } = Object.keys(value as object);
  return length > maxNames
    ? { path: '', problem: `the body has ${length} keys, most of them unknown` }
    : null;
}

/** Query strings hold text; what reads exactly as an integer is one, anything else is left for the schema to refuse. */
function readIntegers(schema: Type.TSchema, query: Record<string, unknown>): Record<string, unknown> {
  const { properties = {} } = schema as { properties?: Record<string, { type?: string }> };
  return Object.fromEntries(
    Object.entries(query).map(([name, value]) => {
      const isInteger = Object.hasOwn(properties, name) && properties[name]?.type === 'integer';
      return [
        name,
        isInteger && typeof value === 'string' && /^-?\d{1,15}$/.test(value) ? Number(value) : value,
      ];
    }),
  );
}

type Flaw = ReturnType<ReturnType<typeof Compile>['Errors']>[number];

function readable(flaws: readonly Flaw[], schema: Type.TSchema, part: string): Problem[] {
  const problems = new Map<string, string>();
  const tell = (path: string, problem: string) => {
    if (!problems.has(path)) problems.set(path, problem);
  };
  for (const flaw of flaws) {
    const path = toPath(flaw.instancePath);
    const params = flaw.params as Record<string, unknown>;
    if (flaw.keyword === 'boolean') continue;
    if (flaw.keyword === 'required') {
      for (const name of params.requiredProperties as string[]) tell(join(path, name), 'is required');
    } else if (flaw.keyword === 'minProperties') {
      tell(path, `${path || part} must hold at least one of ${namesAt(schema, flaw.schemaPath).join(', ')}`);
    } else if (flaw.keyword === 'additionalProperties') {
      const known = namesAt(schema, flaw.schemaPath);
      for (const name of params.additionalProperties as string[]) {
        const others = known.length > 0 ? `there are ${known.join(', ')}` : `${part} takes nothing`;
        tell(join(path, name).slice(0, 100), `is not known here; ${others}`);
      }
    } else if (flaw.keyword === 'enum') {
      tell(path, `must be one of ${(params.allowedValues as string[]).join(', ')}`);
    } else if (flaw.keyword === 'pattern') {
      tell(path, `must be as described: ${describe(schema, flaw.schemaPath) ?? flaw.message}`);
    } else if (path === '') {
      tell('', `${part} ${flaw.message.replace('must be object', 'must be a JSON object')}`);
    } else {
      tell(path, flaw.message);
    }
  }
  return [...problems].slice(0, 20).map(([path, problem]) => ({ path, problem }));
}

function describe(schema: Type.TSchema, schemaPath: string): string | undefined {
  return (partAt(schema, schemaPath) as { description?: string } | undefined)?.description;
}

/** What an object may hold. */
function namesAt(schema: Type.TSchema, schemaPath: string): string[] {
  const { properties = {} } = (partAt(schema, schemaPath) ?? {}) as { properties?: object };
  return Object.keys(properties);
}

/** `#/properties/name` → that part of the schema. */
function partAt(schema: Type.TSchema, schemaPath: string): unknown {
  let part: unknown = schema;
  for (const step of schemaPath.split('/').slice(1))
    part = (part as Record<string, unknown> | undefined)?.[step];
  return part;
}

function toPath(pointer: string): string {
  return pointer.slice(1).replaceAll('/', '.').replaceAll('~1', '/').replaceAll('~0', '~');
}

function join(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`;
}
