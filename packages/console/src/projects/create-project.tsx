// A new project: a name and a limit, then its key, which is shown this once, with programs that use it.
import type { CreatedProjectResponse } from '@rowhouse/api';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { useLocation } from 'wouter';
import { useIdempotencyKey } from '../api/idempotency-key.ts';
import { api } from '../api/request.ts';
import { Button } from '../ui/button.tsx';
import { SecretLine } from '../ui/code.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { Field } from '../ui/field.tsx';
import { Snippets } from '../ui/snippets.tsx';

export function CreateProject({ onClose }: { onClose: () => void }) {
  const client = useQueryClient();
  const [name, setName] = useState('');
  const [slug, setSlug] = useState('');
  const [limitMb, setLimitMb] = useState('512');
  const { once } = useIdempotencyKey();
  const create = useMutation({
    mutationFn: () =>
      once((options) =>
        api.post<CreatedProjectResponse>(
          'projects',
          { name: name.trim(), limit_mb: Number(limitMb), ...(slug ? { slug } : {}) },
          options,
        ),
      ),
    onSuccess: () => client.invalidateQueries({ queryKey: ['projects'] }),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    create.mutate();
  };
  if (create.data) return <Created created={create.data} onClose={onClose} />;
  return (
    <Dialog title="New project" onClose={onClose}>
      <form onSubmit={submit} className="stack">
        {create.error ? <ErrorNote error={create.error} /> : null}
        <Field
          label="Name"
          value={name}
          onChange={setName}
          maxLength={100}
          required
          autoFocus
          placeholder="My Shop"
        />
        <Field
          label="Slug"
          value={slug}
          onChange={setSlug}
          placeholder="from the name"
          help="Names the project in every address. It cannot be changed."
          mono
        />
        <Field
          label="Size limit"
          value={limitMb}
          onChange={setLimitMb}
          inputMode="numeric"
          pattern="[0-9]+"
          required
          suffix="MB"
          help="It can be changed later."
        />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" isBusy={create.isPending} disabled={name.trim() === ''}>
            Create project
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}

function Created({ created, onClose }: { created: CreatedProjectResponse; onClose: () => void }) {
  const [, go] = useLocation();
  const { project, api_key: apiKey } = created;
  return (
    <Dialog title={`${project.name} is ready`} onClose={onClose} kind="wide">
      <div className="stack">
        <p className="note note-warn">
          This is the project key. Copy it now: it is not shown again. Keep it on your server, never in a
          browser.
        </p>
        <SecretLine text={apiKey} label="Project key" />
        <Snippets slug={project.slug} apiKey={apiKey} />
        <DialogActions>
          <Button onClick={onClose}>Back to projects</Button>
          <Button kind="primary" onClick={() => go(`/projects/${project.slug}/tables`)}>
            Open the project
          </Button>
        </DialogActions>
      </div>
    </Dialog>
  );
}
