// @rowhouse/client. It uses fetch, URL, AbortController, TextDecoder and timers, and no API of Node.
export {
  type AccountClient,
  type Connection,
  createAccountClient,
  type Key,
  type ListOptions,
  type Project,
  type ProjectList,
  type ProjectPage,
  type Scope,
} from './account.ts';
export {
  type BatchOptions,
  type BatchStatement,
  type Client,
  type ClientOptions,
  type CodeIssued,
  createClient,
  type Query,
  type QueryOptions,
  type Result,
  type SqlTag,
} from './client.ts';
export type { AnyRow, EmbedsOf, InsertOf, RowOf, TableName, UpdateOf } from './database.ts';
export {
  type ClientErrorCode,
  type ErrorCode,
  type ErrorExtras,
  RowhouseError,
  type Safe,
  type ServiceErrorCode,
  type SqlProblem,
  safe,
} from './errors.ts';
export type { Numbers } from './json.ts';
export type { CallOptions, PostOptions, ServiceOptions } from './request.ts';
export type { Selected } from './select.ts';
export type { AuthEvent, AuthListener, Session, SessionStorage, SignedIn, User } from './sessions.ts';
export type { Sql, SqlName } from './sql.ts';
export type {
  ChangeOptions,
  Column,
  Format,
  Minimal,
  Operator,
  Page,
  Source,
  Table,
  UpsertOptions,
  ValueOf,
  WriteOptions,
} from './table.ts';
