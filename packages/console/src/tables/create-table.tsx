// A new table: by form, or with the columns of a CSV or JSON-lines file, which is then imported.

import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation } from 'wouter';
import { isAbort } from '../api/error.ts';
import { tablesQuery } from '../api/queries.ts';
import { path } from '../api/request.ts';
import { upload } from '../api/upload.ts';
import { useAbort } from '../api/use-abort.ts';
import { importPreviewBytes } from '../limits.ts';
import { Bar } from '../ui/bar.tsx';
import { Button } from '../ui/button.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { Field } from '../ui/field.tsx';
import { FileField } from '../ui/file-field.tsx';
import { plural } from '../ui/format.ts';
import { Icon } from '../ui/icons.tsx';
import { leaveFreely } from '../ui/leaving.ts';
import { toast } from '../ui/toast.tsx';
import { ColumnEditor } from './column-editor.tsx';
import { createTableSql, identity, type NewColumn, newColumn } from './create-table-sql.ts';
import { contentTypes, guessType, type ImportFormat, previewFile } from './import-file.ts';
import { RunDdl } from './run-ddl.tsx';
import { tableName } from './table-name.ts';

const firstColumns = () => [
  newColumn({ name: 'id', type: 'bigint', isKey: true, byDefault: identity }),
  newColumn({ name: 'name', isRequired: true }),
];

export function CreateTable({ slug, onClose }: { slug: string; onClose: () => void }) {
  const [, go] = useLocation();
  const { data: tables = [] } = useQuery(tablesQuery(slug));
  const [name, setName] = useState('');
  const [columns, setColumns] = useState<readonly NewColumn[]>(firstColumns);
  const [file, setFile] = useState<{ content: File; format: ImportFormat } | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [sent, setSent] = useState<number | null>(null);
  const start = useAbort();
  const choose = async (content: File | null) => {
    setError(null);
    setFile(null);
    if (!content) return;
    try {
      const text = await content.slice(0, importPreviewBytes).text();
      const preview = previewFile(content.name, text, content.size <= importPreviewBytes);
      setFile({ content, format: preview.format });
      setColumns(columnsOf(preview.columns, preview.rows));
      if (name === '')
        setName(
          content.name
            .replace(/\.[^.]*$/, '')
            .toLowerCase()
            .replace(/\W+/g, '_'),
        );
    } catch (problem) {
      setError(problem);
    }
  };
  const finish = async () => {
    if (file) {
      const signal = start();
      setSent(0);
      await importFile({
        slug,
        table: name,
        file: file.content,
        format: file.format,
        signal,
        onProgress: setSent,
      });
      // The person has left.
      if (signal.aborted) return;
    }
    leaveFreely(() => go(`/projects/${slug}/tables/${encodeURIComponent(name)}`));
  };
  const change = (id: string, part: Partial<NewColumn>) =>
    setColumns(columns.map((column) => (column.id === id ? { ...column, ...part } : column)));
  return (
    <Dialog
      title="New table"
      kind="wide"
      onClose={onClose}
      isForm
      loses={
        sent === null
          ? null
          : `The import of ${file?.content.name} stops, and none of its rows is stored. The table ${name} stays.`
      }
    >
      <div className="stack">
        <Field label="Name" value={name} onChange={setName} maxLength={63} required autoFocus mono />
        <FileField
          label="From a file"
          accept=".csv,.jsonl,.ndjson,text/csv,application/x-ndjson"
          file={file?.content ?? null}
          onChange={(content) => void choose(content)}
          help="Optional: CSV or JSON lines. Its columns become those of the table, and its rows are imported."
        />
        {error ? <ErrorNote error={error} /> : null}
        <ul className="stack" aria-label="Columns">
          {columns.map((column, index) => (
            <ColumnEditor
              key={column.id}
              column={column}
              number={index + 1}
              tables={tables.map(tableName)}
              onChange={(part) => change(column.id, part)}
              onRemove={
                columns.length > 1 ? () => setColumns(columns.filter(({ id }) => id !== column.id)) : null
              }
            />
          ))}
        </ul>
        <div className="row">
          <Button
            size="small"
            icon={<Icon name="plus" />}
            onClick={() => setColumns([...columns, newColumn()])}
          >
            Add a column
          </Button>
        </div>
        {sent !== null && file ? (
          <div className="stack-s" role="status">
            <Bar value={sent} max={file.content.size} label="Sent bytes" kind="progress" />
            <span className="faint">The table {name} exists. Its rows are being imported …</span>
          </div>
        ) : null}
        <RunDdl
          slug={slug}
          statements={[createTableSql(name, columns)]}
          action={file ? 'Create and import' : 'Create table'}
          problem={problemOf(name, columns)}
          done={file ? null : `The table ${name} is created.`}
          onDone={finish}
        />
      </div>
    </Dialog>
  );
}

function problemOf(name: string, columns: readonly NewColumn[]): string | null {
  if (name.trim() === '') return 'Give the table a name.';
  if (columns.some((column) => column.name.trim() === '' || column.type.trim() === '')) {
    return 'Give every column a name and a type.';
  }
  const names = columns.map((column) => column.name);
  return new Set(names).size < names.length ? 'Two columns have the same name.' : null;
}

/** Without a column "id", the table gets one: rows can be edited here only with a primary key. */
function columnsOf(names: readonly string[], rows: readonly (string | null)[][]): NewColumn[] {
  const found = names.map((name, index) =>
    newColumn({ name, type: guessType(rows.map((row) => row[index] ?? null)) }),
  );
  const id = found.find(({ name }) => name.toLowerCase() === 'id');
  if (id) return found.map((column) => (column === id ? { ...column, isKey: true } : column));
  return [...firstColumns().slice(0, 1), ...found];
}

type Import = {
  slug: string;
  table: string;
  file: File;
  format: ImportFormat;
  signal: AbortSignal;
  onProgress: (sent: number) => void;
};

async function importFile({ slug, table, file, format, signal, onProgress }: Import) {
  try {
    const { row_count } = await upload<{ row_count: number }>({
      path: path`projects/${slug}/tables/${table}`,
      file,
      contentType: contentTypes[format],
      signal,
      onProgress,
    });
    toast.done(`The table ${table} is created, with ${plural(row_count, 'row')}.`);
  } catch (problem) {
    if (isAbort(problem)) return;
    // The person corrects the file or the column, and imports again.
    toast.done(`The table ${table} is created, without rows: the import failed.`);
    toast.failed(problem);
  }
}
