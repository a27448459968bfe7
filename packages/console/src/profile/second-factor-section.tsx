// The authenticator app: set up, replace the recovery codes, turn off.
import type { ConsoleProfileResponse } from '@rowhouse/api';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { sessionRequest } from '../api/request.ts';
import { refresh } from '../session/session.ts';
import { Badge } from '../ui/badge.tsx';
import { Button } from '../ui/button.tsx';
import { Section } from '../ui/page.tsx';
import { toast } from '../ui/toast.tsx';
import { ProveFactor } from './prove-factor.tsx';
import { RenewCodes } from './renew-codes.tsx';
import { SetUpFactor } from './set-up-factor.tsx';

type Props = { person: ConsoleProfileResponse['person'] };

export function SecondFactorSection({ person }: Props) {
  const client = useQueryClient();
  const [open, setOpen] = useState<'set-up' | 'renew' | 'turn-off' | null>(null);
  const reload = async () => {
    await refresh();
    await client.invalidateQueries({ queryKey: ['person'] });
    await client.invalidateQueries({ queryKey: ['console-sessions'] });
  };
  const close = () => setOpen(null);
  return (
    <Section title="Second factor" about="A code of an authenticator app, which every sign-in then needs.">
      <div className="panel panel-pad row row-wrap">
        <span className="grow">
          {person.has_second_factor ? <Badge tone="good">on</Badge> : <Badge>off</Badge>}
          {person.has_password ? null : (
            <span className="muted"> It goes with a password, and you have none.</span>
          )}
        </span>
        {person.has_second_factor ? (
          <>
            <Button onClick={() => setOpen('renew')}>New recovery codes</Button>
            <Button onClick={() => setOpen('turn-off')}>Turn off</Button>
          </>
        ) : (
          <Button disabled={!person.has_password} onClick={() => setOpen('set-up')}>
            Set up
          </Button>
        )}
      </div>
      {open === 'set-up' ? <SetUpFactor email={person.email} onDone={reload} onClose={close} /> : null}
      {open === 'renew' ? <RenewCodes email={person.email} onDone={reload} onClose={close} /> : null}
      {open === 'turn-off' ? (
        <ProveFactor
          title="Turn off the second factor"
          action="Turn off"
          email={person.email}
          onClose={close}
          onProve={async (proof) => {
            await sessionRequest('DELETE', 'person/second-factor', proof);
            close();
            toast.done('The second factor is off.');
            await reload();
          }}
        >
          Then the password alone signs in. Accounts that require a second factor cannot be used without one.
        </ProveFactor>
      ) : null}
    </Section>
  );
}
