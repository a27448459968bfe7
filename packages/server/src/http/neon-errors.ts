// Errors as Neon's driver expects them: PostgreSQL's fields at the top level of the body, next to the envelope of the API,
// and the status 400 for every error that has an SQLSTATE. For any other status the driver shows only the text.
import type { ErrorCode } from '@rowhouse/api';
import type { RowhouseError } from '../errors.ts';
import { errorBody, type Voice } from './error-response.ts';

/** The SQLSTATE that PostgreSQL would report, for requests that are refused before they reach it. */
const states: Partial<Record<ErrorCode, string>> = {
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

export const neonVoice: Voice = {
  statusOf: (error) => (stateOf(error) === undefined ? error.status : 400),
  bodyOf: (error, requestId) => {
    const { state: _state, ...fields } = error.sql ?? {};
    const code = stateOf(error);
    return {
      message: error.message,
      severity: 'ERROR',
      ...(code !== undefined && { code }),
      ...(error.hint !== undefined && { hint: error.hint }),
      ...fields,
      ...errorBody(error, requestId),
    };
  },
};

function stateOf(error: RowhouseError): string | undefined {
  return error.sql?.state ?? states[error.code];
}
