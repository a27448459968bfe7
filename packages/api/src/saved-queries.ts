// Wire types of saved queries, drafts and the history of statements.
import Type, { type Static } from 'typebox';
import { pageQuery, success, title } from './envelope.ts';
import { closed, time } from './fields.ts';

const kind = Type.Enum(['saved', 'draft'], {
  description: 'saved: kept under its name. draft: the unfinished text of an editor.',
});
const query = Type.String({
  minLength: 1,
  maxLength: 100_000,
  description: 'SQL, at most 100,000 characters. It need not be valid.',
  examples: ['select count(*) from teas'],
});

const fields = { id: Type.String(), kind, name: Type.String(), created_at: time, updated_at: time };
export const SavedQuery = Type.Object({ ...fields, query: Type.String() }, closed);
export type SavedQuery = Static<typeof SavedQuery>;
export const ListedQuery = Type.Object(
  { ...fields, preview: Type.String({ description: 'The first 200 characters.' }) },
  closed,
);
export type ListedQuery = Static<typeof ListedQuery>;

export const ListSavedQueries = Type.Object({ kind: Type.Optional(kind) }, closed);
export type ListSavedQueries = Static<typeof ListSavedQueries>;
export const CreateSavedQuery = Type.Object({ name: title, query, kind: Type.Optional(kind) }, closed);
export type CreateSavedQuery = Static<typeof CreateSavedQuery>;
export const ChangeSavedQuery = Type.Object(
  {
    name: Type.Optional(title),
    query: Type.Optional(query),
    kind: Type.Optional(kind),
    if_updated_at: Type.Optional(
      Type.String({
        format: 'date-time',
        maxLength: 40,
        description:
          'The updated_at that you have read. If it has changed since, the request gets 409 and changes nothing.',
      }),
    ),
  },
  closed,
);
export type ChangeSavedQuery = Static<typeof ChangeSavedQuery>;

export const SavedQueryResponse = success({ saved: SavedQuery });
export type SavedQueryResponse = Static<typeof SavedQueryResponse>;
export const SavedQueriesResponse = success({
  queries: Type.Array(ListedQuery, { description: 'By name.' }),
});
export type SavedQueriesResponse = Static<typeof SavedQueriesResponse>;

const maybeNumber = Type.Union([Type.Number({ minimum: 0 }), Type.Null()]);
const result = {
  duration_ms: Type.Optional(maybeNumber),
  row_count: Type.Optional(Type.Union([Type.Integer({ minimum: 0, maximum: 1e15 }), Type.Null()])),
  error: Type.Optional(
    Type.Union([Type.String({ maxLength: 100 }), Type.Null()], { description: 'The code of the error.' }),
  ),
};

export const AddHistory = Type.Object({ query, ...result }, closed);
export type AddHistory = Static<typeof AddHistory>;
export const HistoryEntry = Type.Object(
  {
    id: Type.String(),
    at: time,
    key_id: Type.String({ description: 'The API key that added it.' }),
    query: Type.String({ description: 'At most 10,000 characters.' }),
    duration_ms: maybeNumber,
    row_count: Type.Union([Type.Integer(), Type.Null()]),
    error: Type.Union([Type.String(), Type.Null()]),
  },
  closed,
);
export type HistoryEntry = Static<typeof HistoryEntry>;

export const ListHistory = Type.Object(
  {
    ...pageQuery({ max: 100 }),
    search: Type.Optional(Type.String({ minLength: 1, maxLength: 200, description: 'A part of the SQL.' })),
  },
  closed,
);
export type ListHistory = Static<typeof ListHistory>;
export const HistoryEntryResponse = success({ entry: HistoryEntry });
export type HistoryEntryResponse = Static<typeof HistoryEntryResponse>;
export const HistoryResponse = success({
  history: Type.Array(HistoryEntry, {
    description: 'Newest first: the last 1,000, together at most 4 MB, at most 30 days old.',
  }),
  page: Type.Integer(),
  limit: Type.Integer(),
  has_more: Type.Boolean(),
});
export type HistoryResponse = Static<typeof HistoryResponse>;
export const ClearedResponse = success({ deleted: Type.Integer() });
export type ClearedResponse = Static<typeof ClearedResponse>;
