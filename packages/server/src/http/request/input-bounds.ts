// What is checked of an input before its schema is: no list is longer than the schema allows, no object has many more
// properties than the schema knows, at any depth and behind any union. Validating each item of a very long list, comparing all
// its items, or reporting each of 100,000 unknown properties can take seconds. Then every other request waits.
import type { Problem } from '@rowhouse/api';
import type Type from 'typebox';
import { namesOf } from '../../query/json/wide-object.ts';

/** Only the parts of a schema that have a bound. */
type Bounds = {
  maxItems: number | null;
  items: Bounds | null;
  /** So many properties are known, and others are refused; null: any others are taken. */
  known: number | null;
  properties: [name: string, bounds: Bounds][];
};
type Part = {
  type?: string;
  maxItems?: number;
  items?: Part;
  properties?: Record<string, Part>;
  additionalProperties?: unknown;
  anyOf?: Part[];
};

/** So many unknown properties are reported one by one. */
const maxUnknown = 20;

/** A function that returns what is too long, or null. */
export function compileBounds(schema: Type.TSchema): (value: unknown) => Problem | null {
  const bounds = boundsOf(schema as Part);
  return bounds === null ? () => null : (value) => exceeded(bounds, value, '');
}

function boundsOf(part: Part): Bounds | null {
  const parts = part.anyOf ?? [part];
  const lists = parts.filter(({ items }) => items !== undefined);
  const objects = parts.filter(({ properties }) => properties !== undefined);
  const [list] = lists;
  const [object] = objects;
  // If a body may have several forms of list or object, nothing tells which one the caller means: what is inside is not bound here.
  const items = lists.length === 1 && list?.items ? boundsOf(list.items) : null;
  const properties = Object.entries((objects.length === 1 && object?.properties) || {}).flatMap(
    ([name, inner]): Bounds['properties'] => {
      const bounds = boundsOf(inner);
      return bounds ? [[name, bounds]] : [];
    },
  );
  const maxItems = Math.max(-1, ...lists.map((one) => one.maxItems ?? Number.POSITIVE_INFINITY));
  const isClosed = objects.length > 0 && parts.every(isClosedPart);
  if (maxItems === -1 && !isClosed && properties.length === 0) return null;
  const names = new Set(objects.flatMap((one) => Object.keys(one.properties ?? {})));
  return {
    maxItems: Number.isFinite(maxItems) && maxItems >= 0 ? maxItems : null,
    items,
    known: isClosed ? names.size : null,
    properties,
  };
}

/** Takes no object with properties of any other name. */
function isClosedPart({ properties, additionalProperties, type, ...rest }: Part): boolean {
  if (properties !== undefined) return additionalProperties === false;
  return (type !== undefined && type !== 'object') || 'enum' in rest || 'const' in rest;
}

function exceeded(bounds: Bounds, value: unknown, path: string): Problem | null {
  if (typeof value !== 'object' || value === null) return null;
  if (Array.isArray(value)) return exceededInList(bounds, value, path);
  if (bounds.known !== null) {
    const { length } = namesOf(value);
    const what = path === '' ? 'the body has' : 'has';
    if (length > bounds.known + maxUnknown)
      return { path, problem: `${what} ${length} properties, but only ${bounds.known} are known` };
  }
  for (const [name, inner] of bounds.properties) {
    const entry = (value as Record<string, unknown>)[name];
    const problem = typeof entry === 'object' ? exceeded(inner, entry, join(path, name)) : null;
    if (problem) return problem;
  }
  return null;
}

function exceededInList({ maxItems, items }: Bounds, list: readonly unknown[], path: string): Problem | null {
  if (maxItems !== null && list.length > maxItems)
    return { path, problem: `must have at most ${maxItems} items` };
  if (items === null) return null;
  for (const [index, entry] of list.entries()) {
    const problem = exceeded(items, entry, join(path, String(index)));
    if (problem) return problem;
  }
  return null;
}

const join = (path: string, name: string) => (path === '' ? name : `${path}.${name}`);
