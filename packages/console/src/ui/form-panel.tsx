// A form that stands on a screen, in a section of its own.
import type { ReactNode } from 'react';
import { Button } from './button.tsx';
import { ErrorNote } from './error-state.tsx';
import { useUnsaved } from './leaving.ts';
import { Section } from './page.tsx';

type Props = {
  title: string;
  about?: string;
  action?: string;
  children: ReactNode;
  error: unknown;
  isBusy: boolean;
  /** Something was entered and not saved. */
  isChanged: boolean;
  isReady?: boolean;
  onSubmit: () => unknown;
  onCancel?: () => void;
};

export function FormPanel(props: Props) {
  const { title, about, action = 'Save', children, error, isBusy, isChanged, isReady = isChanged } = props;
  const { onSubmit, onCancel } = props;
  useUnsaved(isChanged ? `What you changed under “${title}” is not saved.` : null, { survivesSearch: true });
  return (
    <Section title={title} about={about}>
      <form
        className="panel panel-pad stack"
        onSubmit={(event) => {
          event.preventDefault();
          onSubmit();
        }}
      >
        {error ? <ErrorNote error={error} /> : null}
        {children}
        <div className="row">
          <Button kind="primary" type="submit" isBusy={isBusy} disabled={!isReady}>
            {action}
          </Button>
          {onCancel ? <Button onClick={onCancel}>Cancel</Button> : null}
        </div>
      </form>
    </Section>
  );
}
