// A new project: a name and a limit, then its key, which is shown this once, with programs that use it.
import type { CreatedProjectResponse } from '@rowhouse/api';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation } from 'wouter';
import { useIdempotencyKey } from '../api/idempotency-key.ts';
import { api } from '../api/request.ts';
import { Button } from '../ui/button.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { FormDialog } from '../ui/form-dialog.tsx';
import { leaveFreely } from '../ui/leaving.ts';
import { useShownOnce } from '../ui/shown-once.tsx';
import { Snippets } from '../ui/snippets.tsx';
import { bodyOf, emptyProject, ProjectFields, ProjectKey } from './project-fields.tsx';

export function CreateProject({ onClose }: { onClose: () => void }) {
  const client = useQueryClient();
  const [project, setProject] = useState(emptyProject);
  const { once } = useIdempotencyKey();
  const shownOnce = useShownOnce(onClose);
  const create = useMutation({
    mutationFn: () =>
      shownOnce(
        () => once((options) => api.post<CreatedProjectResponse>('projects', bodyOf(project), options)),
        (created, close) => <Created created={created} onClose={close} />,
      ),
    onSuccess: () => client.invalidateQueries({ queryKey: ['projects'] }),
  });
  return (
    <FormDialog
      title="New project"
      action="Create project"
      error={create.error}
      isBusy={create.isPending}
      isReady={project.name.trim() !== ''}
      onSubmit={() => create.mutate()}
      onClose={onClose}
      isShownLater
    >
      <ProjectFields
        project={project}
        onChange={(part) => setProject((now) => ({ ...now, ...part }))}
        limitHelp="It can be changed later."
        autoFocus
      />
    </FormDialog>
  );
}

function Created({ created, onClose }: { created: CreatedProjectResponse; onClose: () => void }) {
  const [, go] = useLocation();
  const { project, api_key: apiKey } = created;
  return (
    <Dialog title={`${project.name} is ready`} onClose={onClose} kind="wide" closesByButton>
      <div className="stack">
        <ProjectKey apiKey={apiKey} />
        <Snippets slug={project.slug} apiKey={apiKey} />
        <DialogActions>
          <Button onClick={onClose}>Back to projects</Button>
          <Button
            kind="primary"
            onClick={() => {
              leaveFreely(() => go(`/projects/${project.slug}/tables`));
              onClose();
            }}
          >
            Open the project
          </Button>
        </DialogActions>
      </div>
    </Dialog>
  );
}
