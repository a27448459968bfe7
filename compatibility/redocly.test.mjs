// The OpenAPI document as the linter of Redocly reads it.
import { expect, it } from 'vitest';
import { findProgram } from '../packages/server/test/support/programs.ts';
import { useDocument } from './document.mjs';

const { file, run } = useDocument();

it('redocly finds neither errors nor warnings in the OpenAPI document', async ({ skip }) => {
  const redocly = await findProgram('redocly', 'the OpenAPI document is not linted');
  if (!redocly) return skip();
  const env = { REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' };
  const { status, output } = await run(redocly, ['lint', file, '--format', 'json'], env);
  expect(status, output).toBe(0);
  const { totals, problems } = JSON.parse(output.slice(output.indexOf('{'), output.lastIndexOf('}') + 1));
  expect(problems).toEqual([]);
  expect(totals).toMatchObject({ errors: 0, warnings: 0 });
});
