// rowhouse audit: reads the audit log.
import type { AuditEntry, AuditResponse } from '@rowhouse/api';
import { type Command, Option } from 'commander';
import { type ApiOptions, callApi, withListOptions } from '../api.ts';
import { positive } from '../numbers.ts';
import { showList } from '../output.ts';
import { formatTable } from '../table.ts';
import { parsePast } from '../when.ts';

type AuditOptions = ApiOptions & {
  since?: string;
  until?: string;
  action?: string;
  actor?: string;
  project?: string;
  account?: string;
  outcome?: string;
  limit: number;
};

export function addAudit(program: Command): void {
  withListOptions(
    program
      .command('audit')
      .summary('read the audit log')
      .description('Read the audit log, the newest entries first. Needs an account key, or an operator key.'),
  )
    .option(
      '--since <when>',
      'entries since then: 7d or 12h before now, or 2027-01-31, or 2027-01-31T09:00Z',
      (text) => parsePast(text),
    )
    .option('--until <when>', 'entries before then, in the same forms', (text) => parsePast(text))
    .option('--action <action>', 'an action, such as project.delete, or the part before the dot')
    .option('--actor <id>', 'the id of a person or a key, or an email address')
    .option('-p, --project <slug>', 'entries about this project')
    .option('--account <id>', 'entries of this account, with an operator key')
    .addOption(new Option('--outcome <outcome>', 'how it ended').choices(['done', 'refused', 'failed']))
    .option('--limit <number>', 'how many entries', positive, 50)
    .action(read);
}

async function read(options: AuditOptions): Promise<void> {
  const { since, until, action, actor, project, account, outcome } = options;
  const entries: AuditEntry[] = [];
  for (let cursor: string | null = ''; cursor !== null && entries.length < options.limit; ) {
    const query: Record<string, string | number | undefined> = {
      from: since,
      to: until,
      action,
      actor,
      project,
      account,
      outcome,
      limit: Math.min(1000, options.limit - entries.length),
      cursor: cursor || undefined,
    };
    const page: AuditResponse = await callApi<AuditResponse>(options, 'GET', ['audit'], { query });
    entries.push(...page.entries);
    cursor = page.cursor;
  }
  showList(options, { ok: true, entries }, entries, {
    table: () =>
      formatTable(
        ['at', 'who', 'action', 'project', 'about', 'outcome'].map((title) => ({ title })),
        entries.map((entry) => [
          ...[entry.at, entry.actor.name ?? entry.actor.id ?? entry.actor.kind, entry.action],
          ...[entry.project ?? '', entry.target ?? '', entry.error ?? entry.outcome],
        ]),
      ),
    empty: 'No entry matches.',
  });
}
