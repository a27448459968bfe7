// Wire types of the recent requests of a project.
import Type, { type Static } from 'typebox';
import { success } from './envelope.ts';
import { closed } from './fields.ts';

const text = (description: string) => Type.Union([Type.String(), Type.Null()], { description });

export const LoggedRequest = Type.Object(
  {
    at: Type.String({ format: 'date-time', description: 'When it ended.' }),
    request_id: Type.String(),
    method: Type.String(),
    path: Type.String({ description: 'Without the query string.' }),
    status: Type.Integer({ description: 'A response that was cut off has the status that it began with.' }),
    duration_ms: Type.Number({ description: 'The whole request, including the time to send a response.' }),
    key_id: text('The API key.'),
    code: text('The code of the error.'),
    sql_state: text("PostgreSQL's SQLSTATE."),
    message: text('null if it could contain a value.'),
    statement: text('The SQL without its parameters, at most 1,000 characters.'),
  },
  closed,
);
export type LoggedRequest = Static<typeof LoggedRequest>;

export const RequestCounts = Type.Object(
  {
    at: Type.String({ format: 'date-time', description: 'The start of the minute.' }),
    requests: Type.Integer(),
    failures: Type.Integer(),
    slow: Type.Integer(),
  },
  closed,
);
export type RequestCounts = Static<typeof RequestCounts>;

export const LogsResponse = success({
  since: Type.String({ format: 'date-time', description: 'When this process began to count.' }),
  slow_ms: Type.Integer({ description: 'A statement that takes longer is slow.' }),
  failures: Type.Array(LoggedRequest, { description: 'The last 50 requests that failed, newest first.' }),
  slow: Type.Array(LoggedRequest, { description: 'The last 50 slow statements, newest first.' }),
  requests: Type.Array(RequestCounts, {
    description: 'The minutes of the last hour that had requests, oldest first.',
  }),
});
export type LogsResponse = Static<typeof LogsResponse>;
