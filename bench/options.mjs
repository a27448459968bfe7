// Reads the options of a benchmark. Every benchmark accepts --help, --quick and --write.
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';

/** What an option means in every benchmark that has it and does not say `what` itself. */
const meanings = {
  quick: 'shows that everything runs, not how fast',
  write: 'replaces the section of the benchmark in bench/RESULTS.md, and draws its plots',
  help: 'prints this text',
  seconds: 'seconds of each load',
  repeats: 'turns of each load; their median is reported',
  turns: 'turns of each load; their median is reported',
  connections: 'connections of the load',
  clients: 'clients at the same time',
  projects: 'projects of the installation',
  runs: 'how often each event is caused',
  data: 'a folder that keeps the projects for the next run',
};

/**
 * `known` gives each option's default, and the default gives its kind: a number, an array (numbers separated by commas),
 * null (a text without a default) or false (a flag). `{ quick, full }` holds two defaults: with and without --quick. With
 * `what` it also says what the option means. --help prints the head of the benchmark's file and its options, and exits.
 */
export function readOptions(known, args = process.argv.slice(2)) {
  const all = { quick: false, write: false, ...known };
  if (args.includes('--help') || args.includes('-h')) {
    console.log(helpOf(readFileSync(process.argv[1], 'utf8'), all));
    process.exit();
  }
  const { values } = parseArgs({
    args,
    options: Object.fromEntries(
      Object.entries(all).map(([name, value]) => [
        name,
        { type: typeof defaultsOf(value).full === 'boolean' ? 'boolean' : 'string' },
      ]),
    ),
  });
  const defaultOf = (value) => defaultsOf(value)[values.quick ? 'quick' : 'full'];
  return Object.fromEntries(
    Object.entries(all).map(([name, value]) => [name, read(name, values[name], defaultOf(value))]),
  );
}

function defaultsOf(value) {
  return value && 'full' in Object(value) ? value : { quick: value, full: value };
}

/** What a benchmark measures, which is the comment at the head of its file, and its options. */
export function helpOf(source, known) {
  const head = source.slice(0, source.search(/^(?!\/\/)/m)).replaceAll(/^\/\/ ?/gm, '');
  const lines = Object.entries({ ...known, help: false }).map(([name, value]) => {
    const { quick, full, what = meanings[name] } = defaultsOf(value);
    if (what === undefined) throw new Error(`Nothing says what --${name} means.`);
    const kind = { boolean: '', number: ' <number>', object: full === null ? ' <text>' : ' <numbers>' }[
      typeof full
    ];
    const isSame = String(quick) === String(full);
    const byDefault =
      typeof full === 'boolean' || full === null
        ? ''
        : ` (default: ${full}${isSame ? '' : `, with --quick ${quick}`})`;
    return `  ${`--${name}${kind}`.padEnd(24)} ${what}${byDefault}`;
  });
  return `${head}\nOptions:\n${lines.join('\n')}`;
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
