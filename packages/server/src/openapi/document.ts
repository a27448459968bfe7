// Completes the document that fastify makes of the routes: names of schemas, failures and examples.
import { apiPrefix, ErrorBody, type ErrorCode, NeonErrorBody } from '@rowhouse/api';
import { bodyExamples, pathExamples, slugExamples } from './examples.ts';
import { failuresOf, otherFailure, sharedFailures } from './failures.ts';
import { nameSchemas, plain } from './named-schemas.ts';

type Media = { schema?: { examples?: unknown[] }; example?: unknown };
type Parameter = { name: string; in: string; schema?: object; example?: unknown };
type Described = {
  operationId?: string;
  security?: Record<string, string[]>[];
  parameters?: Parameter[];
  requestBody?: { content: Record<string, Media> };
  responses: Record<string, unknown>;
};
type Paths = Record<string, Record<string, Described>>;
/** The failures that an operation declares, by its id. */
export type DeclaredFailures = ReadonlyMap<string, readonly ErrorCode[]>;
type Document = { paths?: unknown; components?: object };

export function completeDocument<T extends Document>(document: T, declared: DeclaredFailures): T {
  const described = Object.entries((document.paths ?? {}) as Paths).map(([path, methods]) => {
    const entries = Object.entries(methods).map(([method, found]) => [
      method,
      complete(method, path, found, declared),
    ]);
    return [path, Object.fromEntries(entries)] as const;
  });
  // The bodies of failures are only referred to.
  const whole = { paths: Object.fromEntries(described), failures: [ErrorBody, NeonErrorBody] };
  const { part, schemas } = nameSchemas(plain(whole) as typeof whole);
  const components = { ...document.components, responses: sharedFailures(), schemas };
  return { ...document, paths: part.paths, components };
}

function complete(method: string, path: string, found: Described, declared: DeclaredFailures): Described {
  const short = path.startsWith(apiPrefix) ? path.slice(apiPrefix.length) : path;
  const { operationId = '', security, parameters = [], requestBody } = found;
  const traits = {
    method: method.toUpperCase(),
    isKeyed: security?.length !== 0,
    takesToken: security?.some(({ accessToken }) => accessToken) ?? false,
    hasBody: requestBody !== undefined,
    isOfProject: short.includes('{slug}'),
  };
  const { default: _default, ...successes } = found.responses;
  const body = short === '/sql' ? 'NeonErrorBody' : 'ErrorBody';
  return {
    ...found,
    ...(parameters.length > 0 && {
      parameters: parameters.map((parameter) => withExample(parameter, operationId)),
    }),
    ...(requestBody && { requestBody: withExamples(requestBody, bodyExamples[operationId]) }),
    responses: {
      ...successes,
      ...failuresOf(traits, declared.get(operationId) ?? [], body),
      default: otherFailure,
    },
  };
}

function withExample(parameter: Parameter, id: string): Parameter {
  if (parameter.in !== 'path') return parameter;
  const example = (parameter.name === 'slug' && slugExamples[id]) || pathExamples[parameter.name];
  return example === undefined ? parameter : { ...parameter, example };
}

function withExamples<Body extends { content: Record<string, Media> }>(body: Body, json?: object): Body {
  const content = Object.entries(body.content).map(([type, media]) => {
    const example = type === 'application/json' ? json : media.schema?.examples?.[0];
    return [type, example === undefined ? media : { ...media, example }];
  });
  return { ...body, content: Object.fromEntries(content) };
}
