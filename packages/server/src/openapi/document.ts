// Completes the document that fastify makes of the routes: names of operations and schemas, failures and examples.
import { apiPrefix, ErrorBody, NeonErrorBody } from '@rowhouse/api';
import { bodyExamples, pathExamples, slugExamples } from './examples.ts';
import { failuresOf, otherFailure, sharedFailures } from './failures.ts';
import { nameSchemas, plain } from './named-schemas.ts';
import { operations } from './operations.ts';

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
type Document = { paths?: unknown; components?: object };

export function completeDocument<T extends Document>(document: T): T {
  const described = Object.entries((document.paths ?? {}) as Paths).map(([path, methods]) => {
    const entries = Object.entries(methods).map(([method, found]) => [method, complete(method, path, found)]);
    return [path, Object.fromEntries(entries)] as const;
  });
  // The bodies of failures are only referred to.
  const whole = { paths: Object.fromEntries(described), failures: [ErrorBody, NeonErrorBody] };
  const { part, schemas } = nameSchemas(plain(whole) as typeof whole);
  const components = { ...document.components, responses: sharedFailures(), schemas };
  return { ...document, paths: part.paths, components };
}

function complete(method: string, path: string, found: Described): Described {
  const short = path.startsWith(apiPrefix) ? path.slice(apiPrefix.length) : path;
  const route = `${method.toUpperCase()} ${short.replace(/\{(\w+)\}/g, ':$1')}`;
  const operation = operations[route];
  const { security, parameters = [], requestBody } = found;
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
    ...(operation && { operationId: operation.id }),
    ...found,
    ...(parameters.length > 0 && {
      parameters: parameters.map((parameter) => withExample(parameter, operation?.id)),
    }),
    ...(requestBody && { requestBody: withExamples(requestBody, bodyExamples[operation?.id ?? '']) }),
    responses: {
      ...successes,
      ...failuresOf(traits, operation?.fails ?? [], body),
      default: otherFailure,
    },
  };
}

function withExample(parameter: Parameter, id = ''): Parameter {
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
