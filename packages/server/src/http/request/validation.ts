// Validates input with the schemas that document the API. Nothing is coerced, dropped or defaulted.
import { parse as parseQueryString } from 'node:querystring';
import type { Problem } from '@rowhouse/api';
import type { FastifyInstance, FastifySchemaCompiler } from 'fastify';
import Type from 'typebox';
import { Compile } from 'typebox/compile';
import { errors } from '../../errors/errors.ts';
import { compileBounds } from './input-bounds.ts';

const where: Record<string, string> = {
  body: 'the body',
  querystring: 'the query string',
  headers: 'the headers',
};

type Validate = (input: unknown) => { value: unknown } | { error: Error };
/** Each schema is compiled once, although the console has the routes of the API a second time. */
const compiled = new WeakMap<Type.TSchema, Record<string, Validate>>();

export const validatorCompiler: FastifySchemaCompiler<Type.TSchema> = ({ schema, httpPart = 'body' }) => {
  // A malformed path parameter does not name anything: the domain function answers 404.
  if (httpPart === 'params') return (value: unknown) => ({ value });
  return validatorOf(schema, httpPart);
};

export function validatorOf(schema: Type.TSchema, httpPart: string): Validate {
  let parts = compiled.get(schema);
  if (!parts) {
    parts = {};
    compiled.set(schema, parts);
  }
  parts[httpPart] ??= compile(schema, httpPart);
  return parts[httpPart];
}

function compile(schema: Type.TSchema, httpPart: string): Validate {
  const validator = Compile(schema);
  const tooLong = compileBounds(schema);
  const optionalBody = httpPart === 'body' && !('required' in schema) && !('minProperties' in schema);
  return (input: unknown) => {
    let value = input;
    if (httpPart === 'querystring') value = readIntegers(schema, input as Record<string, unknown>);
    else if (optionalBody && (input === undefined || input === null)) value = {};
    const long = tooLong(value);
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
}

const NoQuery = Type.Object({}, { additionalProperties: false });

/** Unknown query parameters are rejected on every endpoint, not ignored. Call before the routes are registered. */
export function refuseUnknownParameters(app: FastifyInstance): void {
  app.addHook('onRoute', (route) => {
    route.schema = { querystring: NoQuery, ...route.schema };
  });
}

/** For a request that accepts no parameters. */
export function checkQueryString(text: string): void {
  const checked = validatorOf(NoQuery, 'querystring')(parseQueryString(text));
  if ('error' in checked) throw checked.error;
}

/** Query strings contain text. Exact integers are converted; the schema rejects anything else. */
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
  const report = (path: string, problem: string) => {
    if (!problems.has(path)) problems.set(path, problem);
  };
  for (const flaw of flaws) {
    const path = toPath(flaw.instancePath);
    const params = flaw.params as Record<string, unknown>;
    if (flaw.keyword === 'boolean') continue;
    if (flaw.keyword === 'required') {
      for (const name of params.requiredProperties as string[]) report(join(path, name), 'is required');
    } else if (flaw.keyword === 'minProperties') {
      const names = namesAt(schema, flaw.schemaPath).join(', ');
      report(path, `${path || part} must contain at least one of ${names}`);
    } else if (flaw.keyword === 'additionalProperties') {
      const known = namesAt(schema, flaw.schemaPath);
      for (const name of params.additionalProperties as string[]) {
        const others = known.length > 0 ? `known: ${known.join(', ')}` : `${part} must be empty`;
        report(join(path, name).slice(0, 100), `is unknown; ${others}`);
      }
    } else {
      const problem = describeFlaw(flaw, schema);
      report(path, path === '' ? `${part} ${problem}` : problem);
    }
  }
  return [...problems].slice(0, 20).map(([path, problem]) => ({ path, problem }));
}

const types: Record<string, string> = {
  array: 'must be an array',
  boolean: 'must be true or false',
  integer: 'must be an integer',
  null: 'must be null',
  number: 'must be a number',
  object: 'must be a JSON object',
  string: 'must be a string',
};

const formats: Record<string, string> = {
  'date-time': 'must be an RFC 3339 date-time with a time zone, such as 2026-01-31T12:00:00Z',
};

/** Describes the expected value, rather than the rule of the schema that failed. */
function describeFlaw(flaw: Flaw, schema: Type.TSchema): string {
  const { keyword, message } = flaw;
  const params = flaw.params as Record<string, unknown>;
  switch (keyword) {
    case 'enum':
      return `must be one of ${(params.allowedValues as string[]).join(', ')}`;
    case 'pattern':
      return `must match its description: ${describe(schema, flaw.schemaPath) ?? message}`;
    case 'format':
      return formats[String(params.format)] ?? message;
    case 'type':
      return types[String(params.type)] ?? message;
    case 'minLength':
      return params.limit === 1 ? 'must not be empty' : `must have at least ${params.limit} characters`;
    case 'maxLength':
      return `must have at most ${params.limit} characters`;
    case 'minItems':
      return params.limit === 1 ? 'must not be empty' : `must have at least ${params.limit} items`;
    case 'maxItems':
      return `must have at most ${params.limit} items`;
    case 'uniqueItems':
      return 'must not contain duplicates';
    case 'minimum':
      return `must be at least ${params.limit}`;
    case 'maximum':
      return `must be at most ${params.limit}`;
    default:
      return message;
  }
}

function describe(schema: Type.TSchema, schemaPath: string): string | undefined {
  return (partAt(schema, schemaPath) as { description?: string } | undefined)?.description;
}

/** The names of the properties that an object can have. */
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
