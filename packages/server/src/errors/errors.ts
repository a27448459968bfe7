// A constructor for each error that the service reports to callers, by domain.
import { consoleErrors } from './console.ts';
import { dumpErrors } from './dumps.ts';
import { projectErrors } from './projects.ts';
import { requestErrors } from './requests.ts';
import { serviceErrors } from './service.ts';
import { statementErrors } from './statements.ts';
import { userErrors } from './users.ts';

export { RowhouseError } from './rowhouse-error.ts';

export const errors = {
  ...requestErrors,
  ...statementErrors,
  ...userErrors,
  ...projectErrors,
  ...dumpErrors,
  ...consoleErrors,
  ...serviceErrors,
};
