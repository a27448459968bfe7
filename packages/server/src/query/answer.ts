// The JSON of an answer around its rows, as the API gives it.
import type { Form, Result } from './exchange/answer-writer.ts';

export function formOf(opening: string): Form {
  return {
    opening: Buffer.from(opening),
    hasHead: true,
    hasRows: true,
    hidden: 0,
    onLastRow: null,
    close: queryEnd,
  };
}

function queryEnd(result: Result): string {
  const { rowCount, durationMs, tag, truncated } = result;
  const command = tag === null ? 'SELECT' : tag.replace(/[ \d]+$/, '');
  const duration = Math.round(durationMs * 1000) / 1000;
  return (
    `],"row_count":${rowCount},"duration_ms":${duration},` +
    `"command":"${command}","affected":${affectedBy(result)},"truncated":${truncated}}`
  );
}

/** The number at the end of the command tag. Without a tag (a limited read) it is the number of rows shown. */
export function affectedBy({ tag, rowCount }: Result): number {
  const count = /(\d+)$/.exec(tag ?? '')?.[1];
  return count === undefined ? (tag === null ? rowCount : 0) : Number(count);
}
