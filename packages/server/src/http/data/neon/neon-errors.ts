// Errors as Neon's driver expects them: PostgreSQL's fields at the top level of the body, next to the envelope of the API,
// and the status 400 for every error that has an SQLSTATE. For any other status the driver shows only the text.

import type { RowhouseError } from '../../../errors/errors.ts';
import { neonStates } from '../../../errors/neon-states.ts';
import { errorBody, type Voice } from '../../response/error-response.ts';

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
  return error.sql?.state ?? neonStates[error.code];
}
