// A new project from a dump, which is sent in parts, or from another PostgreSQL server.
import { type FormEvent, useState } from 'react';
import { Bar } from '../ui/bar.tsx';
import { Button } from '../ui/button.tsx';
import { Confirm } from '../ui/confirm.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { Field, SelectField } from '../ui/field.tsx';
import { FileField } from '../ui/file-field.tsx';
import { formatBytes } from '../ui/format.ts';
import { useLeaveWarning } from '../ui/use-leave-warning.ts';
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
  const { send, sent, started, isSending, error, restart } = useImport();
  const [isLeaving, setLeaving] = useState(false);
  useLeaveWarning(isSending);
  // A click beside the dialog must not end an upload of hours.
  const leave = () => (isSending ? setLeaving(true) : onClose());
  const submit = (event: FormEvent) => {
    event.preventDefault();
    send(bodyOf(project), source === 'file' ? file : address.trim());
  };
  if (started) return <Importing started={started} onClose={onClose} />;
  const isReady = project.name.trim() !== '' && (source === 'file' ? file !== null : address.trim() !== '');
  return (
    <Dialog title="Import a project" onClose={leave}>
      <form className="stack" onSubmit={submit}>
        {error ? <ErrorNote error={error} /> : null}
        <SelectField
          label="From"
          value={source}
          onChange={setSource}
          options={sources}
          disabled={isSending}
        />
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
            help="Of pg_dump --format=custom or plain. If the connection breaks, the upload goes on where it stopped."
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
        <DialogActions>
          <Button onClick={leave}>Cancel</Button>
          <Button kind="primary" type="submit" isBusy={isSending} disabled={!isReady}>
            Import
          </Button>
        </DialogActions>
      </form>
      {isLeaving ? (
        <Confirm
          title="Stop the upload"
          action="Stop the upload"
          onConfirm={onClose}
          onClose={() => setLeaving(false)}
        >
          What was sent so far is deleted.
        </Confirm>
      ) : null}
    </Dialog>
  );
}

/** Without the extension. */
const nameOf = ({ name }: File) => name.replace(/\.[^.]*$/, '').slice(0, 100);
