// rowhouse projects usage: the size of a project by table, and the space left until its limit.
import type { TableUsage, Usage, UsageResponse } from '@rowhouse/api';
import { type ApiOptions, callApi } from '../api.ts';
import { note, show } from '../output.ts';
import { formatFields, formatTable } from '../table.ts';
import { formatTime } from '../when.ts';

export type UsageOptions = ApiOptions & { tables?: number };

const defaultTables = 20;

export async function usage(slug: string, options: UsageOptions): Promise<void> {
  // The history is not shown. One point is the minimum that the API accepts.
  const query = options.json ? {} : { points: 1 };
  const answer = await callApi<UsageResponse>(options, 'GET', ['projects', slug, 'usage'], { query });
  const { tables, table_count: count } = answer.usage;
  const shown = tables.slice(0, options.tables ?? defaultTables);
  show(options, answer, (given) => {
    const fields = formatFields(fieldsOf(given.usage));
    return shown.length > 0 ? `${tableOf(shown)}\n\n${fields}` : fields;
  });
  if (shown.length < tables.length)
    note(options, `The project has ${count} tables: add --tables ${tables.length}`);
  else if (shown.length < count)
    note(options, `The project has ${count} tables. The service returns the ${tables.length} largest.`);
}

function tableOf(tables: readonly TableUsage[]): string {
  return formatTable(
    [
      { title: 'TABLE', max: 60 },
      { title: 'ROWS ABOUT', align: 'right' },
      { title: 'SIZE MB', align: 'right' },
      { title: 'HEAP', align: 'right' },
      { title: 'INDEXES', align: 'right' },
      { title: 'TOAST', align: 'right' },
    ],
    tables.map((table) => [
      table.schema === 'public' ? table.name : `${table.schema}.${table.name}`,
      table.row_estimate ?? '-',
      mb(table.total_bytes),
      mb(table.heap_bytes),
      mb(table.index_bytes),
      mb(table.toast_bytes),
    ]),
  );
}

function fieldsOf(given: Usage): [string, string | number][] {
  return [
    ['tables', given.table_count],
    ['users', `${mb(given.users_bytes)} MB`],
    ['large objects', `${mb(given.large_objects_bytes)} MB`],
    ['other', `${mb(given.other_bytes)} MB`],
    ['size', `${given.size_mb.toFixed(2)} MB`],
    ['limit', `${given.limit_mb} MB`],
    ['headroom', `${given.headroom_mb.toFixed(2)} MB`],
    ['status', given.status],
    ['measured', formatTime(given.measured_at)],
    ...drillOf(given),
  ];
}

/** Only a failure is worth a line. A service of an earlier version does not report any. */
function drillOf({ failed_restore_drill_at: at }: Usage): [string, string][] {
  if (!at) return [];
  const meaning = 'The backups of this project may not be restorable. Tell the operator.';
  return [['restore drill', `failed at ${formatTime(at)}. ${meaning}`]];
}

function mb(bytes: number): string {
  return (bytes / 1024 / 1024).toFixed(2);
}
