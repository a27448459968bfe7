// The frame of every page before the session: sign-in, invitation, new password.
import type { FormEvent, ReactNode } from 'react';
import { ErrorNote } from '../ui/error-state.tsx';
import { Mark } from '../ui/icons.tsx';
import { usePageTitle } from '../ui/page.tsx';

type Props = {
  title: string;
  about?: ReactNode;
  /** Why the page is shown. */
  reason?: string | null;
  error?: unknown;
  onSubmit?: () => void;
  /** Below the form. */
  foot?: ReactNode;
  children?: ReactNode;
};

export function SignInCard({ title, about, reason, error, onSubmit, foot, children }: Props) {
  usePageTitle(title);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onSubmit?.();
  };
  return (
    <main className="sign-in">
      <div className="sign-in-card">
        <header className="sign-in-head">
          <Mark size={36} />
          <h1>{title}</h1>
          {about ? <p>{about}</p> : null}
        </header>
        {reason && !error ? (
          <p className="note" role="status">
            {reason}
          </p>
        ) : null}
        {error ? <ErrorNote error={error} /> : null}
        {children ? (
          <form className="stack" onSubmit={submit}>
            {children}
          </form>
        ) : null}
        {foot ? <div className="sign-in-foot">{foot}</div> : null}
      </div>
    </main>
  );
}
