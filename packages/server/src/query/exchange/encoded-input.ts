// A statement's text and values as PostgreSQL reads them.

import type { Parameter, Pieces } from '../../postgres/wire/frontend-messages.ts';
import { newStatement, type PreparedStatement } from '../../postgres/wire/prepared-statements.ts';
import type { ServerError } from '../../postgres/wire/server-error.ts';
import { type Session, silent } from '../../postgres/wire/session.ts';
import { isLarge } from '../json/large-json.ts';
import { toLargeParameter, toLargeText, toParameter } from '../json/parameters.ts';
import type { StatementInput } from './answer-writer.ts';
import type { Ended } from './outcome.ts';

export type EncodedInput = Readonly<{ query: string | Pieces; parameters: readonly Parameter[] }>;

/** Throws if a value cannot be sent. `types`: the parameters' oids, if they are known. */
export function encode({ query, params }: StatementInput, types: readonly number[] | null): EncodedInput {
  return { query, parameters: params.map((value, index) => toParameter(value, types?.[index])) };
}

/** The same in slices, so that other requests get their turn. */
export async function encodeLarge(
  { query, params }: StatementInput,
  types: readonly number[] | null,
): Promise<EncodedInput> {
  const parameters: Parameter[] = [];
  for (const [index, value] of params.entries())
    parameters.push(await toLargeParameter(value, types?.[index]));
  return { query: await textOf(query), parameters };
}

/** Prepares the text to learn the types of its parameters: one more round trip, once for each statement and session. */
export async function prepareForTypes(session: Session, query: string) {
  const prepared: PreparedStatement = newStatement();
  let failure: ServerError | null = null;
  session.out
    .parse(prepared.name, await textOf(query))
    .describeStatement(prepared.name)
    .sync();
  const status = await new Promise<Ended>((resolve) =>
    session.send({
      ...silent,
      parameterTypes: (oids) => {
        prepared.parameterTypes = oids;
      },
      error: (error) => {
        failure = error;
      },
      ready: resolve,
      lost: resolve,
    }),
  );
  return { prepared, status, failure: failure as ServerError | null };
}

function textOf(query: string): string | Promise<Pieces> {
  return isLarge(query) ? toLargeText(query) : query;
}
