// Names for the schemas of the OpenAPI document: each one that @rowhouse/api exports becomes a component under its name, and
// every place where it occurs refers to it. Generators then make one type of it instead of many. fastify copies the schemas of the
// routes, so they are recognised by their text. Where two exports have the same text, the operation tells which one it means:
// createSnapshot takes a CreateSnapshot.
import * as api from '@rowhouse/api';

type Json = unknown;
type Node = Record<string, Json>;

type Named = Readonly<{ name: string; schema: Node }>;

/** Replaces the schemas in `part` by references, and returns the components that these need. `declared`: the schemas by name. */
export function nameSchemas<Part>(
  part: Part,
  declared: Readonly<Record<string, unknown>> = api,
): { part: Part; schemas: Record<string, Node> } {
  const schemas: Record<string, Node> = {};
  const known = knownSchemas(declared);
  const texts = new WeakMap<object, string>();

  /** `operation`: the id of the operation around the node. */
  const refer = (node: Json, operation: string): Json => {
    if (Array.isArray(node)) return node.map((item) => refer(item, operation));
    if (!isNode(node)) return node;
    if (typeof node.operationId === 'string') return referInside(node, node.operationId);
    if (!isSchema(node)) return referInside(node, operation);
    const { description, ...rest } = node;
    const named =
      known.get(textOf(node, texts)) ??
      (description === undefined ? undefined : known.get(textOf(rest, texts)));
    const found = named && choose(named, operation);
    if (!found) return referInside(node, operation);
    const { name, schema } = found;
    schemas[name] ??= define(name, schema);
    const $ref = `#/components/schemas/${name}`;
    const isOwn = description === undefined || schemas[name].description === description;
    return isOwn ? { $ref } : { $ref, description };
  };
  const referInside = (node: Node, operation: string): Node =>
    Object.fromEntries(
      Object.entries(node).map(([key, value]) => [key, isData(key) ? value : refer(value, operation)]),
    );
  const define = (name: string, schema: Node): Node => {
    // Before its parts are looked at, in case that one of them contains it.
    schemas[name] = {};
    // Every operation shares the component.
    return referInside(schema, '');
  };
  return { part: refer(part, '') as Part, schemas: sorted(schemas) };
}

/** If neither of two names is the operation's, the schema gets none: a wrong name misleads more than a missing one. */
function choose(named: readonly Named[], operation: string): Named | undefined {
  if (named.length === 1) return named[0];
  return named.find(({ name }) => name === operation.charAt(0).toUpperCase() + operation.slice(1));
}

/**
 * As generators expect it, and as fastify writes it: a literal and every enum with a type, a map without a pattern. Of a
 * property, the default is only described: some generators take a property with a default for one that is always there.
 */
export function plain(schema: Json): Json {
  if (Array.isArray(schema)) return schema.map(plain);
  if (!isNode(schema)) return schema;
  const entries = Object.entries(schema).map(([key, value]) => [key, isData(key) ? value : plain(value)]);
  return withoutDefaults(withTypedEnum(withoutPattern(Object.fromEntries(entries))));
}

function withoutDefaults(node: Node): Node {
  if (node.type !== 'object' || !isNode(node.properties)) return node;
  const properties = Object.entries(node.properties).map(([name, property]) => {
    if (!isNode(property) || !Object.hasOwn(property, 'default')) return [name, property];
    const { default: value, description, ...rest } = property;
    const note = `Default: ${typeof value === 'string' ? value : JSON.stringify(value)}.`;
    return [name, { ...rest, description: description ? `${description} ${note}` : note }];
  });
  return { ...node, properties: Object.fromEntries(properties) };
}

function withTypedEnum(node: Node): Node {
  const { const: literal, ...rest } = node;
  const choices = literal === undefined ? node.enum : [literal];
  // A property that is called "enum" is a schema, not a list.
  if (!Array.isArray(choices)) return node;
  const [type, ...others] = new Set(choices.map((choice) => typeof choice));
  return { ...rest, ...(type && others.length === 0 && { type }), enum: choices };
}

function withoutPattern(node: Node): Node {
  const { patternProperties, ...rest } = node;
  if (!isNode(patternProperties)) return node;
  const [[pattern, values] = [], ...others] = Object.entries(patternProperties);
  return pattern === '^.*$' && others.length === 0 ? { ...rest, additionalProperties: values } : node;
}

/** What the schema says about values, which is not a schema itself. */
function isData(key: string): boolean {
  return key === 'example' || key === 'examples' || key === 'default';
}

/** The declared schemas, by their text. Those of the console are not part of the document. */
function knownSchemas(declared: Readonly<Record<string, unknown>>): Map<string, Named[]> {
  const texts = new WeakMap<object, string>();
  const known = new Map<string, Named[]>();
  for (const [name, value] of Object.entries(declared)) {
    if (!/^[A-Z](?!onsole)/.test(name) || !isNode(value) || !isSchema(value)) continue;
    const schema = plain(value) as Node;
    const text = textOf(schema, texts);
    known.set(text, [...(known.get(text) ?? []), { name, schema }]);
  }
  return known;
}

/** Equal for equal schemas, whatever the order of their keys. */
function textOf(node: Json, texts: WeakMap<object, string>): string {
  if (Array.isArray(node)) return `[${node.map((item) => textOf(item, texts)).join()}]`;
  if (!isNode(node)) return JSON.stringify(node) ?? 'undefined';
  const kept = texts.get(node);
  if (kept !== undefined) return kept;
  const pairs = Object.keys(node)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${textOf(node[key], texts)}`);
  const text = `{${pairs.join()}}`;
  texts.set(node, text);
  return text;
}

function isSchema(node: Node): boolean {
  return 'type' in node || 'anyOf' in node || 'enum' in node;
}

function sorted(schemas: Record<string, Node>): Record<string, Node> {
  return Object.fromEntries(Object.entries(schemas).sort(([a], [b]) => (a < b ? -1 : 1)));
}

function isNode(value: Json): value is Node {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
