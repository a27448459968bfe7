// Name and limit, the connection string, rules for passwords, and what ends a project.
import type { ConnectionResponse, Project, UserSettings } from '@rowhouse/api';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation } from 'wouter';
import { projectQuery } from '../api/queries.ts';
import { api, path } from '../api/request.ts';
import { mayCreateProjects, mayManageProjects, mayOperate, mayWrite } from '../session/may.ts';
import { useSession } from '../session/use-session.ts';
import { Button } from '../ui/button.tsx';
import { SecretLine } from '../ui/code.tsx';
import { Confirm } from '../ui/confirm.tsx';
import { ErrorNote, ErrorState } from '../ui/error-state.tsx';
import { CheckField, Field } from '../ui/field.tsx';
import { FormPanel } from '../ui/form-panel.tsx';
import { leaveFreely } from '../ui/leaving.ts';
import { Page, Section } from '../ui/page.tsx';
import { Skeleton } from '../ui/skeleton.tsx';
import { toast } from '../ui/toast.tsx';
import { BranchActions } from './branch-actions.tsx';
import { Branches } from './branches.tsx';
import { ExportProject } from './export-project.tsx';
import { mayLimit } from './lower-limit.ts';
import { MoveProject } from './move-project.tsx';
import { Snapshots } from './snapshots.tsx';

export function Settings({ slug }: { slug: string }) {
  const { data: project, error, refetch } = useQuery(projectQuery(slug));
  const session = useSession();
  if (error) return <ErrorState isPage error={error} onRetry={() => void refetch()} />;
  if (!project) return <Skeleton lines={8} />;
  return (
    <Page title="Settings" about={`Project ${slug}`}>
      {mayWrite(session) ? (
        <>
          <General key={project.id} project={project} />
          <Connection slug={slug} />
          <Passwords slug={slug} />
          <ExportProject slug={slug} />
        </>
      ) : (
        <p className="muted">
          Your role is viewer. Developers of this account change settings and export the project.
        </p>
      )}
      {mayManageProjects(session) ? (
        <>
          {mayCreateProjects(session) ? (
            <>
              {project.parent ? <BranchActions project={project} parent={project.parent} /> : null}
              <Branches project={project} />
            </>
          ) : null}
          <Snapshots slug={slug} />
          {mayOperate(session) ? <MoveProject slug={slug} /> : null}
          <Danger project={project} />
        </>
      ) : null}
    </Page>
  );
}

function General({ project }: { project: Project }) {
  const client = useQueryClient();
  const { scope } = useSession();
  const [name, setName] = useState(project.name);
  const [limitMb, setLimitMb] = useState(String(project.limit_mb));
  const save = useMutation({
    mutationFn: async () => {
      const limit = Number(limitMb);
      if (!(await mayLimit(project, project.name, limit))) return false;
      await api.patch(path`projects/${project.slug}`, { name: name.trim(), limit_mb: limit });
      return true;
    },
    onSuccess: (isSaved) => {
      if (!isSaved) return;
      toast.done('Saved.');
      void client.invalidateQueries({ queryKey: ['projects'] });
      return client.invalidateQueries({ queryKey: ['project', project.slug] });
    },
  });
  return (
    <FormPanel
      title="General"
      error={save.error}
      isBusy={save.isPending}
      isChanged={name.trim() !== project.name || Number(limitMb) !== project.limit_mb}
      onSubmit={() => save.mutate()}
    >
      <Field label="Name" value={name} onChange={setName} maxLength={100} required />
      <Field
        label="Size limit"
        value={limitMb}
        onChange={setLimitMb}
        inputMode="numeric"
        pattern="[0-9]+"
        required
        suffix="MB"
        help={scope === 'account' ? undefined : 'Only an account key changes the limit.'}
      />
    </FormPanel>
  );
}

function Connection({ slug }: { slug: string }) {
  const show = useMutation({
    mutationFn: () => api.get<ConnectionResponse>(path`projects/${slug}/connection`),
  });
  return (
    <Section
      title="Connection string"
      about="For psql, Prisma, Drizzle, Metabase and every other PostgreSQL client."
    >
      <div className="panel panel-pad stack-s">
        {show.error ? <ErrorNote error={show.error} /> : null}
        {show.data ? (
          <SecretLine text={show.data.connection.url} label="Connection string" />
        ) : (
          <div className="row row-wrap">
            <span className="muted grow">It contains the password of the database.</span>
            <Button isBusy={show.isPending} onClick={() => show.mutate()}>
              Show it
            </Button>
          </div>
        )}
      </div>
    </Section>
  );
}

function Passwords({ slug }: { slug: string }) {
  const client = useQueryClient();
  const key = ['project', slug, 'auth-settings'];
  const { data, error } = useQuery({
    queryKey: key,
    queryFn: ({ signal }) =>
      api.get<{ settings: UserSettings }>(path`projects/${slug}/auth/settings`, undefined, signal),
  });
  const change = useMutation({
    mutationFn: (refuse: boolean) =>
      api.patch<{ settings: UserSettings }>(path`projects/${slug}/auth/settings`, {
        refuse_common_passwords: refuse,
      }),
    onSuccess: (answer) => client.setQueryData(key, answer),
    onError: toast.failed,
  });
  return (
    <Section title="Passwords of users">
      <div className="panel panel-pad">
        {error ? <ErrorNote error={error} /> : null}
        {data ? (
          <CheckField
            label="Refuse common passwords"
            help="At sign-up and when a password is changed, simple variations included."
            checked={data.settings.refuse_common_passwords}
            onChange={(refuse) => change.mutate(refuse)}
          />
        ) : null}
      </div>
    </Section>
  );
}

function Danger({ project }: { project: Project }) {
  const client = useQueryClient();
  const [, go] = useLocation();
  const [isAsking, setAsking] = useState(false);
  const remove = useMutation({
    mutationFn: () => api.delete(path`projects/${project.slug}`),
    onSuccess: () => {
      toast.done(`${project.name} is deleted. It can be restored for 7 days.`);
      leaveFreely(() => go('/projects'));
      return client.invalidateQueries({ queryKey: ['projects'] });
    },
  });
  return (
    <Section title="Danger zone">
      <div className="panel panel-pad row row-wrap">
        <div className="grow">
          <h3>Delete this project</h3>
          <p className="muted">
            Its keys stop working at once. It can be restored for 7 days, with all of its data.
          </p>
        </div>
        <Button kind="danger" onClick={() => setAsking(true)}>
          Delete project
        </Button>
      </div>
      {isAsking ? (
        <Confirm
          title={`Delete ${project.name}`}
          action="Delete project"
          word={project.slug}
          isBusy={remove.isPending}
          error={remove.error}
          onConfirm={() => remove.mutate()}
          onClose={() => setAsking(false)}
        >
          Programs that use this project fail at once.
        </Confirm>
      ) : null}
    </Section>
  );
}
