// Reads the options of a benchmark. Every benchmark accepts --quick and --write.
import { parseArgs } from 'node:util';

/**
 * `known` gives each option's default, and the default gives its kind: a number, an array (numbers separated by commas),
 * null (a text without a default) or false (a flag). `{ quick, full }` holds two defaults: with and without --quick.
 */
export function readOptions(known, args = process.argv.slice(2)) {
  const isFlag = (value) => typeof value === 'boolean';
  const all = { quick: false, write: false, ...known };
  const { values } = parseArgs({
    args,
    options: Object.fromEntries(
      Object.entries(all).map(([name, value]) => [name, { type: isFlag(value) ? 'boolean' : 'string' }]),
    ),
  });
  const defaultOf = (value) =>
    value && 'full' in Object(value) ? value[values.quick ? 'quick' : 'full'] : value;
  return Object.fromEntries(
    Object.entries(all).map(([name, value]) => [name, read(name, values[name], defaultOf(value))]),
  );
}

function read(name, given, byDefault) {
  if (given === undefined || typeof given === 'boolean') return given ?? byDefault;
  if (Array.isArray(byDefault))
    return given
      .split(',')
      .filter(Boolean)
      .map((text) => toNumber(name, text));
  return typeof byDefault === 'number' ? toNumber(name, given) : given;
}

function toNumber(name, text) {
  const number = Number(text);
  if (text.trim() === '' || Number.isNaN(number)) throw new Error(`--${name} takes a number, not "${text}".`);
  return number;
}
