// All rows that match the filters, in the order of the screen, as a file.
import { download, type Format, fileNameOf, formats } from '../api/download.ts';
import { path } from '../api/request.ts';
import { formatBytes } from '../ui/format.ts';
import { toast } from '../ui/toast.tsx';
import { type FilterGroup, groupParam, orderParam, type Sort } from './filters.ts';

type Shown = { filters: readonly FilterGroup[]; sorts: readonly Sort[] };

export async function exportTable(slug: string, table: string, { filters, sorts }: Shown, format: Format) {
  const query: [string, string][] = filters.map(groupParam);
  if (sorts.length > 0) query.push(['order', orderParam(sorts)]);
  const { type: accept, extension } = formats[format];
  try {
    const bytes = await download({
      method: 'GET',
      path: path`projects/${slug}/tables/${table}`,
      accept,
      query,
      fileName: `${fileNameOf(slug, table)}.${extension}`,
    });
    toast.done(`Exported ${formatBytes(bytes)}.`);
  } catch (error) {
    toast.failed(error);
  }
}
