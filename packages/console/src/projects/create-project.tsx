// A new project: a name and a limit, then its key, which is shown this once, with programs that use it.
import type { CreatedProjectResponse } from '@rowhouse/api';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useIdempotencyKey } from '../api/idempotency-key.ts';
import { api } from '../api/request.ts';
import { useShownOnce } from '../session/shown-once.tsx';
import { Button } from '../ui/button.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { FormDialog } from '../ui/form-dialog.tsx';
import { Snippets } from '../ui/snippets.tsx';
import { bodyOf, emptyProject, ProjectFields, ProjectKey } from './project-fields.tsx';
import { useOpenProject } from './use-open-project.ts';

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
  const { project, api_key: apiKey } = created;
  const open = useOpenProject(project.slug, onClose);
  return (
    <Dialog title={`${project.name} is ready`} onClose={onClose} kind="wide" closesByButton>
      <div className="stack">
        <ProjectKey apiKey={apiKey} />
        <Snippets slug={project.slug} apiKey={apiKey} />
        <DialogActions>
          <Button onClick={onClose}>Back to projects</Button>
          <Button kind="primary" onClick={open}>
            Open the project
          </Button>
        </DialogActions>
      </div>
    </Dialog>
  );
}
