// The connection to another provider, with which the person can then sign in.
import type { ConsoleProviderLinkResponse } from '@rowhouse/api';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import { confirmed, sessionRequest } from '../api/request.ts';
import { goToProvider, takeAnswer } from '../session/provider.ts';
import { useAttempt } from '../session/use-attempt.ts';
import { Button } from '../ui/button.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { Section } from '../ui/page.tsx';
import { toast } from '../ui/toast.tsx';

export function ProviderSection() {
  const client = useQueryClient();
  const { error, isBusy, run } = useAttempt();
  const { data } = useQuery({
    queryKey: ['person-provider'],
    queryFn: () => sessionRequest<ConsoleProviderLinkResponse>('GET', 'person/provider'),
  });
  const reload = () => client.invalidateQueries({ queryKey: ['person-provider'] });
  const hasLooked = useRef(false);
  useEffect(() => {
    if (hasLooked.current) return;
    hasLooked.current = true;
    const answer = takeAnswer('connect');
    if (!answer) return;
    void run(async () => {
      await confirmed(() => sessionRequest('POST', 'person/provider', answer));
      toast.done('Connected.');
      await reload();
    });
  });
  const disconnect = () =>
    run(async () => {
      await confirmed(() => sessionRequest('DELETE', 'person/provider'));
      await reload();
    });
  if (!data?.provider) return null;
  const { name, is_linked: isLinked } = data.provider;
  return (
    <Section title={`Sign-in with ${name}`}>
      <div className="panel panel-pad stack">
        {error ? <ErrorNote error={error} /> : null}
        <div className="row row-wrap">
          <span className="grow">{isLinked ? 'You can sign in with it.' : 'Not connected.'}</span>
          {isLinked ? (
            <Button isBusy={isBusy} onClick={() => void disconnect()}>
              Disconnect
            </Button>
          ) : (
            <Button isBusy={isBusy} onClick={() => void run(() => goToProvider('connect'))}>
              Connect
            </Button>
          )}
        </div>
      </div>
    </Section>
  );
}
