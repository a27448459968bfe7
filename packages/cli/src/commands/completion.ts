// rowhouse completion: scripts for shells, written from the commands and options that the program has.
import type { Command, Option } from 'commander';
import { failure } from '../failure.ts';

type Node = {
  path: string;
  words: { text: string; about: string }[];
  choices: [flag: string, values: string[]][];
};

const shells = { bash, zsh, fish };

export function addCompletion(program: Command): void {
  program
    .command('completion <shell>')
    .summary('print completion for bash, zsh or fish')
    .description(
      'Print a completion script. bash: source <(rowhouse completion bash) in ~/.bashrc. zsh: source <(rowhouse completion ' +
        'zsh) in ~/.zshrc, after compinit. fish: rowhouse completion fish > ~/.config/fish/completions/rowhouse.fish',
    )
    .action((shell: string) => {
      const write = Object.entries(shells).find(([name]) => name === shell)?.[1];
      if (!write)
        throw failure('invalid_request', `There is no completion for "${shell}".`, 'Use bash, zsh or fish.');
      process.stdout.write(write(nodesOf(program)));
    });
}

/** One for each command, with what can follow it. */
export function nodesOf(command: Command, path = ''): Node[] {
  const options = [...command.options, help].filter(({ hidden }) => !hidden);
  const subcommands = command.commands.filter((one) => one.name() !== 'help');
  return [
    {
      path,
      words: [
        ...subcommands.map((one) => ({ text: one.name(), about: one.summary() || one.description() })),
        ...options.map((option) => ({ text: flagOf(option), about: option.description })),
        ...argumentsOf(path).map((text) => ({ text, about: '' })),
      ],
      choices: options.flatMap((option) =>
        option.argChoices ? [[flagOf(option), option.argChoices] as [string, string[]]] : [],
      ),
    },
    ...subcommands.flatMap((one) => nodesOf(one, `${path} ${one.name()}`.trim())),
  ];
}

const help = {
  long: '--help',
  short: undefined,
  hidden: false,
  description: 'show help',
} as unknown as Option;
const flagOf = ({ long, short }: Option) => long ?? short ?? '';
const argumentsOf = (path: string) => (path === 'completion' ? Object.keys(shells) : []);
const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;
const firstSentence = (text: string) => text.split(/[.:] |\n/)[0]?.replace(/\.$/, '') ?? '';

/** Finds the longest path of words that names a command. Options and arguments between them are passed over. */
const walk = (nodes: Node[]) => `  local at= word
  for word in "\${before[@]}"; do
    case "\${at:+$at }$word" in
      ${nodes
        .map(({ path }) => quoted(path))
        .filter((path) => path !== "''")
        .join('|')}) at="\${at:+$at }$word" ;;
    esac
  done`;

function bash(nodes: Node[]): string {
  const cases = nodes.map(
    ({ path, words }) => `    ${quoted(path)}) words=${quoted(words.map(({ text }) => text).join(' '))} ;;`,
  );
  const choices = nodes.flatMap(({ path, choices: some }) =>
    some.map(([flag, values]) => `    ${quoted(`${path} ${flag}`)}) words=${quoted(values.join(' '))} ;;`),
  );
  return `# Completion of rowhouse for bash.
_rowhouse() {
  local current="\${COMP_WORDS[COMP_CWORD]}" before=("\${COMP_WORDS[@]:1:COMP_CWORD-1}") words=
${walk(nodes)}
  case "$at" in
${cases.join('\n')}
  esac
  case "$at \${COMP_WORDS[COMP_CWORD-1]}" in
${choices.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _rowhouse rowhouse
`;
}

function zsh(nodes: Node[]): string {
  const entry = ({ text, about }: Node['words'][number]) =>
    quoted(about ? `${text.replaceAll(':', '\\:')}:${firstSentence(about)}` : text);
  const cases = nodes.map(
    ({ path, words }) => `    ${quoted(path)}) words_=(${words.map(entry).join(' ')}) ;;`,
  );
  const choices = nodes.flatMap(({ path, choices: some }) =>
    some.map(
      ([flag, values]) => `    ${quoted(`${path} ${flag}`)}) words_=(${values.map(quoted).join(' ')}) ;;`,
    ),
  );
  return `#compdef rowhouse
# Completion of rowhouse for zsh.
_rowhouse() {
  local -a before words_
  before=("\${(@)words[2,CURRENT-1]}")
${walk(nodes)}
  case "$at" in
${cases.join('\n')}
  esac
  case "$at \${words[CURRENT-1]}" in
${choices.join('\n')}
  esac
  _describe rowhouse words_ || _files
}
compdef _rowhouse rowhouse
`;
}

function fish(nodes: Node[]): string {
  const lines = nodes.flatMap(({ path, words, choices }) => {
    const is = `-n ${quoted(`test (__rowhouse_at) = ${quoted(path)}`)}`;
    return words.map(({ text, about }) => {
      const values = choices.find(([flag]) => flag === text)?.[1];
      const what = text.startsWith('--')
        ? `-l ${text.slice(2)}${values ? ` -x -a ${quoted(values.join(' '))}` : ''}`
        : `-f -a ${text}`;
      return `complete -c rowhouse ${is} ${what} -d ${quoted(firstSentence(about))}`;
    });
  });
  return `# Completion of rowhouse for fish.
function __rowhouse_at
  set -l paths ${nodes.map(({ path }) => quoted(path)).join(' ')}
  set -l at ''
  for word in (commandline -opc)[2..-1]
    set -l next (string trim -- "$at $word")
    contains -- $next $paths; and set at $next
  end
  echo "$at"
end
${lines.join('\n')}
`;
}
