import { expect, it } from 'vitest';
import { nameSchemas } from './named-schemas.ts';

const body = () => ({ type: 'object', properties: { name: { type: 'string' } } });
const bodies = (operations: readonly string[]) => {
  const { part, schemas } = nameSchemas(
    operations.map((operationId) => ({ operationId, requestBody: { schema: body() } })),
    { CreateSnapshot: body(), Title: { type: 'integer' }, RenamePasskey: body() },
  );
  return { schemas: Object.keys(schemas), bodies: part.map(({ requestBody }) => requestBody.schema) };
};

it('a schema that has the same text as another one keeps the name that its operation has', () => {
  const createSnapshot = { $ref: '#/components/schemas/CreateSnapshot' };
  const renamePasskey = { $ref: '#/components/schemas/RenamePasskey' };
  expect(bodies(['createSnapshot'])).toEqual({ schemas: ['CreateSnapshot'], bodies: [createSnapshot] });
  expect(bodies(['createSnapshot', 'renamePasskey'])).toEqual({
    schemas: ['CreateSnapshot', 'RenamePasskey'],
    bodies: [createSnapshot, renamePasskey],
  });
});

it('a schema gets no name if two fit and the operation has neither', () => {
  expect(bodies(['renameProject'])).toEqual({ schemas: [], bodies: [body()] });
});

it('a schema with a text of its own gets its name in every operation, also with a description', () => {
  const title = { type: 'integer', description: 'The title.' };
  const { part } = nameSchemas({ operationId: 'other', responses: title }, { Title: { type: 'integer' } });
  expect(part.responses).toEqual({ $ref: '#/components/schemas/Title', description: 'The title.' });
});
