// Asks for the API key again before keys and connection strings are shown. The request that needed it waits here.
import { type FormEvent, useEffect, useState } from 'react';
import { type ApiError, toApiError } from '../api/error.ts';
import { hooks } from '../api/request.ts';
import { Button } from '../ui/button.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { Field } from '../ui/field.tsx';
import { confirmSession } from './session.ts';

export function ConfirmDialog() {
  const [resolve, setResolve] = useState<((confirmed: boolean) => void) | null>(null);
  const [apiKey, setApiKey] = useState('');
  const [error, setError] = useState<ApiError | null>(null);
  useEffect(() => {
    hooks.confirm = () => new Promise<boolean>((settle) => setResolve(() => settle));
    return () => {
      hooks.confirm = async () => false;
    };
  }, []);
  const finish = (confirmed: boolean) => {
    resolve?.(confirmed);
    setResolve(null);
    setApiKey('');
    setError(null);
  };
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    try {
      await confirmSession(apiKey.trim());
      finish(true);
    } catch (problem) {
      setError(toApiError(problem));
    }
  };
  if (!resolve) return null;
  return (
    <Dialog title="Confirm that it is you" onClose={() => finish(false)}>
      <form onSubmit={submit} className="stack">
        <p className="muted">
          Secrets are shown only to a person who has just entered their API key. The confirmation lasts 5
          minutes.
        </p>
        {error ? <ErrorNote error={error} /> : null}
        <Field
          label="API key"
          type="password"
          value={apiKey}
          onChange={setApiKey}
          autoFocus
          required
          autoComplete="current-password"
          mono
        />
        <DialogActions>
          <Button onClick={() => finish(false)}>Cancel</Button>
          <Button kind="primary" type="submit">
            Confirm
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}
