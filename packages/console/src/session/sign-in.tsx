// The page before the session: an API key, until people have passwords.
import { type FormEvent, useState } from 'react';
import { type ApiError, toApiError } from '../api/error.ts';
import { Button } from '../ui/button.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { Field } from '../ui/field.tsx';
import { Mark } from '../ui/icons.tsx';
import { signIn } from './session.ts';

export function SignIn({ reason }: { reason: string | null }) {
  const [apiKey, setApiKey] = useState('');
  const [error, setError] = useState<ApiError | null>(null);
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await signIn({ api_key: apiKey.trim() });
    } catch (problem) {
      setError(toApiError(problem));
      setBusy(false);
    }
  };
  return (
    <main className="sign-in">
      <form className="sign-in-card" onSubmit={submit}>
        <header className="sign-in-head">
          <Mark size={36} />
          <h1>Sign in to Rowhouse</h1>
          <p>Real PostgreSQL projects, each behind one small API.</p>
        </header>
        {reason && !error ? (
          <p className="note" role="status">
            {reason}
          </p>
        ) : null}
        {error ? <ErrorNote error={error} /> : null}
        <Field
          label="API key"
          type="password"
          value={apiKey}
          onChange={setApiKey}
          autoFocus
          required
          autoComplete="current-password"
          placeholder="rh_acct_… or rh_proj_…"
          help="The account key manages all projects. A project key opens one project."
          mono
        />
        <Button kind="primary" type="submit" isBusy={isBusy} isWide disabled={apiKey.trim() === ''}>
          Sign in
        </Button>
        <p className="sign-in-foot">
          The service prints a sign-in link when it starts. The key is exchanged for a session of at most 12
          hours and is not stored in the browser.
        </p>
      </form>
    </main>
  );
}
