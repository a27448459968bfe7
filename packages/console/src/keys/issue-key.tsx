import type { IssuedKeyResponse, Scope } from '@rowhouse/api';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { useIdempotencyKey } from '../api/idempotency-key.ts';
import { api, path } from '../api/request.ts';
import { useShownOnce } from '../session/shown-once.tsx';
import { ExpiresField, expiresToBody } from '../ui/expires-field.tsx';
import { CheckField, Field, SelectField } from '../ui/field.tsx';
import { FormDialog } from '../ui/form-dialog.tsx';
import { ShownKey } from './shown-key.tsx';

const scopes: Record<Scope, string> = {
  query: 'Run any SQL',
  'query:read': 'Run SQL that only reads',
  'tables:read': 'Read rows of tables',
  'tables:write': 'Write rows of tables',
  auth: 'Sign end users up and in',
  manage: 'Manage keys, users and settings',
};
const scopeNames = Object.keys(scopes) as Scope[];

type Props = { slug: string; onIssued: () => unknown; onClose: () => void };

export function IssueKey({ slug, onIssued, onClose }: Props) {
  const [name, setName] = useState('');
  const [kind, setKind] = useState('scoped');
  const [chosen, setChosen] = useState<ReadonlySet<Scope>>(new Set(['tables:read']));
  const [tables, setTables] = useState('');
  const [expires, setExpires] = useState('');
  const { once } = useIdempotencyKey();
  const shownOnce = useShownOnce(onClose);
  const issue = useMutation({
    mutationFn: () => {
      const list = tables
        .split(',')
        .map((table) => table.trim())
        .filter(Boolean);
      const body = {
        name: name.trim(),
        kind,
        ...(kind === 'scoped' ? { scopes: [...chosen] } : {}),
        ...(list.length > 0 ? { tables: list } : {}),
        ...expiresToBody(expires),
      };
      return shownOnce(
        () => once((options) => api.post<IssuedKeyResponse>(path`projects/${slug}/keys`, body, options)),
        ({ api_key: apiKey }, close) => <ShownKey apiKey={apiKey} onClose={close} />,
      );
    },
    onSuccess: onIssued,
  });
  const toggle = (scope: Scope, isOn: boolean) => {
    const next = new Set(chosen);
    if (isOn) next.add(scope);
    else next.delete(scope);
    setChosen(next);
  };
  return (
    <FormDialog
      title="New key"
      action="Create key"
      error={issue.error}
      isBusy={issue.isPending}
      isReady={name.trim() !== ''}
      onSubmit={() => issue.mutate()}
      onClose={onClose}
      isShownLater
    >
      <Field label="Name" value={name} onChange={setName} required autoFocus placeholder="Nightly report" />
      <SelectField
        label="Kind"
        value={kind}
        onChange={setKind}
        options={[
          { value: 'scoped', label: 'For a server, with scopes' },
          { value: 'publishable', label: 'Publishable, for browsers' },
        ]}
      />
      {kind === 'scoped' ? (
        <fieldset className="fieldset">
          <legend className="field-label">Scopes</legend>
          {scopeNames.map((scope) => (
            <CheckField
              key={scope}
              label={scope}
              help={scopes[scope]}
              checked={chosen.has(scope)}
              onChange={(isOn) => toggle(scope, isOn)}
            />
          ))}
        </fieldset>
      ) : null}
      <Field
        label="Only these tables"
        value={tables}
        onChange={setTables}
        placeholder="all tables"
        help="Separate names with commas."
        mono
      />
      <ExpiresField value={expires} onChange={setExpires} />
    </FormDialog>
  );
}
