// Numbers on the command line.
import { InvalidArgumentError } from 'commander';

export function positive(text: string): number {
  if (!/^[1-9]\d{0,14}$/.test(text))
    throw new InvalidArgumentError('It must be a whole number of at least 1.');
  return Number(text);
}
