import type { IssuedAccountKeyResponse, Role } from '@rowhouse/api';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { useIdempotencyKey } from '../api/idempotency-key.ts';
import { api } from '../api/request.ts';
import { ShownKey } from '../keys/shown-key.tsx';
import { roleTexts } from '../people/role-texts.ts';
import { rolesBelow } from '../session/may.ts';
import { useShownOnce } from '../session/shown-once.tsx';
import { useSession } from '../session/use-session.ts';
import { ExpiresField, expiresToBody } from '../ui/expires-field.tsx';
import { Field, SelectField } from '../ui/field.tsx';
import { FormDialog } from '../ui/form-dialog.tsx';

type Props = { onIssued: () => unknown; onClose: () => void };

export function IssueAccountKey({ onIssued, onClose }: Props) {
  const [name, setName] = useState('');
  const [role, setRole] = useState<Role>('developer');
  const [expires, setExpires] = useState('');
  const { once } = useIdempotencyKey();
  const shownOnce = useShownOnce(onClose);
  const issue = useMutation({
    mutationFn: () => {
      const body = { name: name.trim(), role, ...expiresToBody(expires) };
      return shownOnce(
        () => once((options) => api.post<IssuedAccountKeyResponse>('account/keys', body, options)),
        ({ api_key: apiKey }, close) => <ShownKey apiKey={apiKey} onClose={close} />,
      );
    },
    onSuccess: onIssued,
  });
  return (
    <FormDialog
      title="New account key"
      action="Create key"
      error={issue.error}
      isBusy={issue.isPending}
      isReady={name.trim() !== ''}
      onSubmit={() => issue.mutate()}
      onClose={onClose}
      isShownLater
    >
      <Field
        label="Name"
        value={name}
        onChange={setName}
        required
        autoFocus
        maxLength={100}
        placeholder="ci"
      />
      <SelectField
        label="Role"
        value={role}
        onChange={(next) => setRole(next as Role)}
        options={rolesBelow(useSession())}
        help={roleTexts[role]}
      />
      <ExpiresField value={expires} onChange={setExpires} />
    </FormDialog>
  );
}
