// Bodies that are dumps, or parts of one: bytes, which are streamed.
import type { FastifyInstance, FastifySchemaCompiler } from 'fastify';
import type Type from 'typebox';
import { checkEncoding } from './json-body.ts';

const dumpTypes = ['application/octet-stream', 'application/sql'];
const Bytes = { schema: { type: 'string', format: 'binary' } };
/** For the schema of a body. */
export const dumpContent = Object.fromEntries(dumpTypes.map((type) => [type, Bytes]));

/** For a scope of its own: no other endpoint takes these types. */
export function takeDumps(app: FastifyInstance): void {
  for (const type of dumpTypes)
    app.addContentTypeParser(type, (request, payload, done) => {
      try {
        checkEncoding(request.headers);
        done(null, payload);
      } catch (error) {
        done(error as Error);
      }
    });
}

/** Bytes are judged by their reader. */
export function exceptDumps(app: FastifyInstance): FastifySchemaCompiler<Type.TSchema> {
  return ({ schema, httpPart, ...rest }) => {
    const compile = app.validatorCompiler;
    if (!compile || schema === Bytes.schema) return () => true;
    return compile({ schema, ...(httpPart && { httpPart }), ...rest });
  };
}

export function isStream(body: unknown): body is AsyncIterable<Buffer> {
  return typeof body === 'object' && body !== null && Symbol.asyncIterator in body;
}
