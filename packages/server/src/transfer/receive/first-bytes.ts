// Refuses a dump by its first bytes, before the rest of it arrives: a large upload in the wrong format ends at once.
import { errors } from '../../errors/errors.ts';
import { withGoodBeginning } from '../read/beginning.ts';
import { BrokenDump } from '../read/broken-dump.ts';

export async function* checkFirstBytes(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void> {
  try {
    yield* withGoodBeginning(pieces);
  } catch (error) {
    throw error instanceof BrokenDump ? errors.brokenDump(error.message, error.hint) : error;
  }
}
