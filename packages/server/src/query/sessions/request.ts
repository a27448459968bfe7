// One statement on its way to PostgreSQL, with everything that the stages need: one value instead of many arguments.
import type { ProjectLogin } from '../../servers/databases/login.ts';
import type { Form, StatementInput } from '../exchange/answer-writer.ts';
import type { Reader } from '../exchange/reader.ts';
import type { Statement } from '../statement/statement.ts';
import type { StatementProfile } from './statement-profiles.ts';

export type QueryInput = StatementInput &
  Readonly<{ timeoutMs: number; readOnly: boolean; dryRun: boolean; maxAffected: number | null }>;

export type StatementRequest = Readonly<{
  project: ProjectLogin;
  statement: Statement;
  profile: StatementProfile;
  input: QueryInput;
  form: Form;
  reader: Reader;
}>;
