// The whole project as a file.
import { useState } from 'react';
import { download, fileNameOf } from '../api/download.ts';
import { path } from '../api/request.ts';
import { Button } from '../ui/button.tsx';
import { SelectField } from '../ui/field.tsx';
import { formatBytes } from '../ui/format.ts';
import { Section } from '../ui/page.tsx';
import { toast } from '../ui/toast.tsx';

const formats = [
  { value: 'custom', label: 'Dump for pg_restore', extension: 'dump' },
  { value: 'sql', label: 'SQL script for psql', extension: 'sql' },
  { value: 'csv', label: 'Zip with a CSV file for each table', extension: 'zip' },
];

export function ExportProject({ slug }: { slug: string }) {
  const [format, setFormat] = useState('custom');
  const [bytes, setBytes] = useState<number | null>(null);
  const start = async () => {
    setBytes(0);
    try {
      const extension = formats.find(({ value }) => value === format)?.extension ?? 'dump';
      const total = await download({
        method: 'GET',
        path: path`projects/${slug}/export`,
        accept: '*/*',
        query: { format },
        fileName: `${fileNameOf(slug)}.${extension}`,
        onProgress: setBytes,
      });
      toast.done(`Exported ${formatBytes(total)}.`);
    } catch (error) {
      toast.failed(error);
    }
    setBytes(null);
  };
  return (
    <Section
      title="Export"
      about="The project with its users, as a file for another PostgreSQL or a spreadsheet."
    >
      <div className="panel panel-pad row row-wrap row-end">
        <div className="grow">
          <SelectField label="Format" value={format} onChange={setFormat} options={formats} />
        </div>
        <Button isBusy={bytes !== null} onClick={() => void start()}>
          {bytes === null ? 'Export' : formatBytes(bytes)}
        </Button>
      </div>
    </Section>
  );
}
