// The interactive shell of `rowhouse sql`: statements over several lines, history, completion, and a few commands of psql.
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { splitStatements } from '@rowhouse/api/statements';
import { configFolder } from './config-file.ts';
import { note, showFailure } from './output.ts';
import { completeSql, type Names, readNames } from './sql-complete.ts';
import { formatResult } from './sql-result.ts';
import { type RunOptions, readSqlFile, runScript } from './sql-run.ts';
import { clean } from './table.ts';

const historyLines = 1000;

const help = String.raw`\d           list tables and views
\d <table>   show the columns of a table
\df          list functions
\x           show one field on each line, or tables again
\i <file>    run the statements of a file
\q           quit (also Ctrl-D)
A statement ends with a semicolon. Several on one line run in one transaction. Ctrl-C cancels.
A line that begins with a space is not kept in the history.
For BEGIN, COPY and LISTEN, use: rowhouse psql`;

export async function openShell(slug: string, given: RunOptions): Promise<void> {
  const options = { ...given, isShell: true };
  let names: Names = await readNames(slug, options);
  let isExpanded = false;
  let running: AbortController | null = null;
  let text = '';
  const file = path.join(configFolder(), 'history');
  const lines = createInterface({
    input: process.stdin,
    output: process.stdout,
    terminal: true,
    historySize: historyLines,
    history: readHistory(file),
    removeHistoryDuplicates: true,
    completer: (line: string) => completeSql(names, text + line, line),
  });
  const prompt = () => {
    lines.setPrompt(text === '' ? `${slug}=> ` : `${slug}-> `);
    // Part of the next line may have been typed while a statement ran: what follows belongs behind it.
    lines.prompt(true);
  };
  note(options, clean(`Connected to ${slug}. \\? shows help, \\q quits.`));
  lines.on('SIGINT', () => {
    if (running) return running.abort();
    text = '';
    process.stdout.write('^C\n');
    // Removes what was typed of the line, before and behind the cursor.
    for (const name of ['k', 'u']) lines.write('', { ctrl: true, name });
    prompt();
  });

  const run = async (script: string, name?: string) => {
    running = new AbortController();
    try {
      const { signal } = running;
      const results = await runScript(slug, { text: script, ...(name && { name }) }, { ...options, signal });
      for (const result of results) process.stdout.write(`${formatResult(result, { isExpanded })}\n`);
      // A statement may have made a table.
      if (results.some(({ columns }) => columns.length === 0)) names = await readNames(slug, options);
    } catch (error) {
      showFailure({}, error);
    } finally {
      running = null;
    }
  };
  const command = async (line: string) => {
    const [, word = '', rest = ''] = /^\\(\S*)\s*(.*?)\s*;?$/.exec(line) ?? [];
    if (word === 'x') isExpanded = !isExpanded;
    else if (word === 'i') await run(readSqlFile(rest), rest);
    else if (word === 'd' && rest !== '') await run(columnsOf(rest));
    else if (word === 'd' || word === 'dt') await run(tables);
    else if (word === 'df') await run(functions);
    else process.stdout.write(`${help}\n`);
  };

  prompt();
  for await (const line of lines) {
    const trimmed = line.trim();
    if (text === '' && /^(\\q|exit|quit)\b/.test(trimmed)) break;
    if (!line.startsWith(' ') && trimmed !== '') remember(file, line);
    if (text === '' && trimmed.startsWith('\\')) {
      await command(trimmed).catch((error: unknown) => showFailure({}, error));
    } else {
      text += `${line}\n`;
      if (endsStatement(text)) {
        const whole = text;
        text = '';
        await run(whole);
      } else if (text.trim() === '') text = '';
    }
    prompt();
  }
  lines.close();
}

/** Whether the semicolon at the end is one that ends a statement, and not part of a string or a comment. */
export function endsStatement(text: string): boolean {
  const trimmed = text.trimEnd();
  if (!trimmed.endsWith(';')) return false;
  return splitStatements(`${trimmed} x`).at(-1)?.text === 'x';
}

const quote = (text: string) => `'${text.replaceAll("'", "''")}'`;

const tables = `select n.nspname as schema, c.relname as name,
  case c.relkind when 'r' then 'table' when 'p' then 'partitioned table' when 'v' then 'view'
    when 'm' then 'materialized view' else 'foreign table' end as kind,
  pg_catalog.pg_size_pretty(pg_catalog.pg_total_relation_size(c.oid)) as size
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p', 'v', 'm', 'f') and n.nspname not in ('pg_catalog', 'information_schema')
  and n.nspname !~ '^pg_' order by 1, 2`;

const functions = `select n.nspname as schema, p.proname as name, pg_catalog.pg_get_function_result(p.oid) as returns,
  pg_catalog.pg_get_function_arguments(p.oid) as arguments
from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
where n.nspname not in ('pg_catalog', 'information_schema', 'auth') order by 1, 2`;

const columnsOf = (table: string) => `select a.attname as column,
  pg_catalog.format_type(a.atttypid, a.atttypmod) as type, not a.attnotnull as nullable,
  pg_catalog.pg_get_expr(d.adbin, d.adrelid) as default
from pg_catalog.pg_attribute a left join pg_catalog.pg_attrdef d on (d.adrelid, d.adnum) = (a.attrelid, a.attnum)
where a.attrelid = ${quote(table)}::pg_catalog.regclass and a.attnum > 0 and not a.attisdropped order by a.attnum`;

/** Newest first, as readline wants it. */
function readHistory(file: string): string[] {
  try {
    const lines = readFileSync(file, 'utf8').split('\n').filter(Boolean).slice(-historyLines);
    if (lines.length === historyLines) writeFileSync(file, `${lines.join('\n')}\n`, { mode: 0o600 });
    return lines.reverse();
  } catch {
    return [];
  }
}

/** Statements can hold secrets: only the owner reads the file. Without a history, the shell works too. */
function remember(file: string, line: string): void {
  try {
    mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
    appendFileSync(file, `${line}\n`, { mode: 0o600 });
  } catch {
    // A read-only home folder.
  }
}
