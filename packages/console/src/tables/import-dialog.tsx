// Imports a CSV or JSON-lines file into a table: a preview with the types, then the file itself, with progress. Either all
// rows are inserted or none.

import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { isAbort } from '../api/error.ts';
import type { Table } from '../api/queries.ts';
import { path } from '../api/request.ts';
import { upload } from '../api/upload.ts';
import { useAbort } from '../api/use-abort.ts';
import { importPreviewBytes } from '../limits.ts';
import { Badge } from '../ui/badge.tsx';
import { Bar } from '../ui/bar.tsx';
import { Button } from '../ui/button.tsx';
import { CancelButton, Dialog, DialogActions } from '../ui/dialog.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { FileField } from '../ui/file-field.tsx';
import { formatBytes, plural } from '../ui/format.ts';
import { toast } from '../ui/toast.tsx';
import { contentTypes, type Preview, previewFile } from './import-file.ts';
import { PreviewTable } from './preview-table.tsx';
import { tableName } from './table-name.ts';

type Props = { slug: string; table: Table; onImported: () => void; onClose: () => void };

export function ImportDialog({ slug, table, onImported, onClose }: Props) {
  const client = useQueryClient();
  const [file, setFile] = useState<File | null>(null);
  const [preview, setPreview] = useState<Preview | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [sent, setSent] = useState<number | null>(null);
  const begin = useAbort();
  const choose = async (chosen: File | null) => {
    setFile(chosen);
    setPreview(null);
    setError(null);
    if (!chosen) return;
    try {
      const text = await chosen.slice(0, importPreviewBytes).text();
      setPreview(previewFile(chosen.name, text, chosen.size <= importPreviewBytes));
    } catch (problem) {
      setError(problem);
    }
  };
  const start = async () => {
    if (!file || !preview) return;
    const signal = begin();
    setError(null);
    setSent(0);
    try {
      const { row_count } = await upload<{ row_count: number }>({
        path: path`projects/${slug}/tables/${tableName(table)}`,
        file,
        contentType: contentTypes[preview.format],
        signal,
        onProgress: setSent,
      });
      toast.done(`${plural(row_count, 'row')} imported.`);
      void client.invalidateQueries({ queryKey: ['project', slug, 'tables'] });
      onImported();
    } catch (problem) {
      if (!isAbort(problem)) setError(problem);
      setSent(null);
    }
  };
  const unknown = preview ? preview.columns.filter((name) => !typeOf(table, name)) : [];
  return (
    <Dialog
      title={`Import into ${tableName(table)}`}
      kind="wide"
      onClose={onClose}
      loses={sent === null ? null : `The import of ${file?.name} stops, and none of its rows is stored.`}
    >
      <div className="stack">
        <FileField
          label="CSV or JSON lines"
          accept=".csv,.tsv,.jsonl,.ndjson,.json,text/csv,application/x-ndjson"
          file={file}
          onChange={(chosen) => void choose(chosen)}
          help="CSV starts with a line of column names. An empty field is NULL."
        />
        {error ? <ErrorNote error={error} /> : null}
        {unknown.length > 0 ? (
          <p className="note note-bad" role="alert">
            {tableName(table)} has no column {unknown.map((name) => `“${name}”`).join(', ')}.
          </p>
        ) : null}
        {preview ? (
          <PreviewTable
            preview={preview}
            typeOf={(name) => <Badge>{typeOf(table, name) ?? 'unknown'}</Badge>}
          />
        ) : null}
        {sent !== null && file ? (
          <div className="stack-s" role="status">
            <Bar value={sent} max={file.size} label="Sent bytes" kind="progress" />
            <span className="faint">
              {sent < file.size
                ? `${formatBytes(sent)} of ${formatBytes(file.size)} sent`
                : 'Everything is sent. PostgreSQL is checking and storing the rows …'}
            </span>
          </div>
        ) : null}
        <DialogActions>
          <CancelButton />
          <Button
            kind="primary"
            isBusy={sent !== null}
            disabled={!preview || unknown.length > 0}
            onClick={() => void start()}
          >
            Import
          </Button>
        </DialogActions>
      </div>
    </Dialog>
  );
}

const typeOf = (table: Table, column: string) => table.columns.find(({ name }) => name === column)?.type;
