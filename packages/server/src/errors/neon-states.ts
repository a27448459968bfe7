// The errors that Neon's driver gets with an SQLSTATE, although PostgreSQL never saw the request.
import type { ErrorCode } from '@rowhouse/api';

/** The SQLSTATE that PostgreSQL would report, for requests that are refused before they reach it. */
export const neonStates: Partial<Record<ErrorCode, string>> = {
  invalid_request: '08P01',
  invalid_json: '08P01',
  missing_api_key: '28000',
  invalid_api_key: '28P01',
  invalid_credentials: '28P01',
  project_not_found: '3D000',
  forbidden: '42501',
  multiple_statements: '42601',
  statement_not_allowed: '0A000',
  sql_error: '54000',
  query_timeout: '57014',
  project_full: '53100',
};
