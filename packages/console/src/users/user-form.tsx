import type { User } from '@rowhouse/api';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { api, path } from '../api/request.ts';
import { CheckField, Field, TextField } from '../ui/field.tsx';
import { FormDialog } from '../ui/form-dialog.tsx';

type Props = { slug: string; user: User | null; onSaved: () => void; onClose: () => void };

export function UserForm({ slug, user, onSaved, onClose }: Props) {
  const [email, setEmail] = useState(user?.email ?? '');
  const [password, setPassword] = useState('');
  const [role, setRole] = useState(user?.role ?? 'authenticated');
  const [isVerified, setVerified] = useState(user?.email_verified_at != null);
  const [data, setData] = useState(JSON.stringify(user?.data ?? {}, null, 2));
  const parsed = readObject(data);
  const save = useMutation({
    mutationFn: () => {
      const body = {
        email: email.trim(),
        role,
        email_verified: isVerified,
        data: parsed,
        ...(password ? { password } : {}),
      };
      return user
        ? api.patch(path`projects/${slug}/auth/users/${user.id}`, body)
        : api.post(path`projects/${slug}/auth/users`, body);
    },
    onSuccess: onSaved,
  });
  return (
    <FormDialog
      title={user ? 'Edit user' : 'New user'}
      action={user ? 'Save' : 'Create user'}
      error={save.error}
      isBusy={save.isPending}
      isReady={parsed !== null}
      onSubmit={() => save.mutate()}
      onClose={onClose}
    >
      <Field label="Email" type="email" value={email} onChange={setEmail} required autoFocus />
      <Field
        label={user ? 'New password' : 'Password'}
        type="password"
        value={password}
        onChange={setPassword}
        autoComplete="new-password"
        help={user ? 'Empty: it stays as it is.' : 'Empty: the user sets one with a reset code.'}
      />
      <Field label="Role" value={role} onChange={setRole} required mono />
      <CheckField label="The email address is verified" checked={isVerified} onChange={setVerified} />
      <TextField
        label="data"
        value={data}
        onChange={setData}
        error={parsed ? null : 'A JSON object is expected.'}
        rows={6}
      />
    </FormDialog>
  );
}

function readObject(text: string): object | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}
