// A new project from a dump, which is sent in parts, or from another PostgreSQL server.
import { useState } from 'react';
import { Bar } from '../ui/bar.tsx';
import { Field, SelectField } from '../ui/field.tsx';
import { FileField } from '../ui/file-field.tsx';
import { FormDialog } from '../ui/form-dialog.tsx';
import { formatBytes } from '../ui/format.ts';
import { Importing } from './importing.tsx';
import { bodyOf, emptyProject, type NewProject, ProjectFields } from './project-fields.tsx';
import { useImport } from './use-import.ts';

const sources = [
  { value: 'file', label: 'a dump of pg_dump, or an SQL script' },
  { value: 'server', label: 'a PostgreSQL server' },
];

export function ImportProject({ onClose }: { onClose: () => void }) {
  const [source, setSource] = useState('file');
  const [file, setFile] = useState<File | null>(null);
  const [address, setAddress] = useState('');
  const [project, setProject] = useState(emptyProject);
  const change = (part: Partial<NewProject>) => setProject((now) => ({ ...now, ...part }));
  const { send, sent, isSending, error, restart } = useImport(onClose, (started, close) => (
    <Importing started={started} onClose={close} />
  ));
  const isReady = project.name.trim() !== '' && (source === 'file' ? file !== null : address.trim() !== '');
  return (
    <FormDialog
      title="Import a project"
      action="Import"
      error={error}
      isBusy={isSending}
      isReady={isReady}
      onSubmit={() => send(bodyOf(project), source === 'file' ? file : address.trim())}
      onClose={onClose}
      loses={isSending ? 'The upload stops, and what was sent so far is deleted.' : null}
    >
      <SelectField label="From" value={source} onChange={setSource} options={sources} disabled={isSending} />
      {source === 'file' ? (
        <FileField
          label="File"
          accept=".dump,.sql,.backup,.pgdump,application/sql,application/octet-stream"
          file={file}
          onChange={(chosen) => {
            setFile(chosen);
            restart();
            if (chosen && project.name === '') change({ name: nameOf(chosen) });
          }}
          help="A file of pg_dump --format=custom or plain. If the connection breaks, the upload goes on where it stopped."
        />
      ) : (
        <Field
          label="Address"
          type="password"
          value={address}
          onChange={setAddress}
          required
          autoComplete="off"
          maxLength={2_000}
          placeholder="postgres://user:password@db.example.com:5432/shop"
          help="It is neither stored nor logged. The service connects to it, and must be able to reach it."
          mono
        />
      )}
      <ProjectFields
        project={project}
        onChange={change}
        limitHelp="The import fails if the data needs more."
      />
      {sent !== null && file ? (
        <div className="stack-s" role="status">
          <Bar value={sent} max={file.size} label="Sent bytes" kind="progress" />
          <span className="faint">
            {formatBytes(sent)} of {formatBytes(file.size)} sent
          </span>
        </div>
      ) : null}
    </FormDialog>
  );
}

/** Without the extension. */
const nameOf = ({ name }: File) => name.replace(/\.[^.]*$/, '').slice(0, 100);
