// A constructor for each error that the service reports to callers, by domain.
import { consoleErrors } from './errors/console.ts';
import { dumpErrors } from './errors/dumps.ts';
import { projectErrors } from './errors/projects.ts';
import { requestErrors } from './errors/requests.ts';
import { serviceErrors } from './errors/service.ts';
import { statementErrors } from './errors/statements.ts';
import { userErrors } from './errors/users.ts';

export { RowhouseError } from './errors/rowhouse-error.ts';

export const errors = {
  ...requestErrors,
  ...statementErrors,
  ...userErrors,
  ...projectErrors,
  ...dumpErrors,
  ...consoleErrors,
  ...serviceErrors,
};
