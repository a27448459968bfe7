// Passkeys: the list, a new one, another name, removal.
import type { ConsoleWaysResponse, Passkey, PasskeysResponse } from '@rowhouse/api';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { confirmed, sessionRequest } from '../api/request.ts';
import { useAttempt } from '../session/use-attempt.ts';
import { Button } from '../ui/button.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { Field } from '../ui/field.tsx';
import { List } from '../ui/list.tsx';
import { Section } from '../ui/page.tsx';

export function PasskeysSection() {
  const client = useQueryClient();
  const [name, setName] = useState('');
  const { error, isBusy, run } = useAttempt();
  const { data: ways } = useQuery({
    queryKey: ['ways'],
    queryFn: () => sessionRequest<ConsoleWaysResponse>('GET', 'ways'),
  });
  const { data } = useQuery({
    queryKey: ['passkeys'],
    queryFn: () => sessionRequest<PasskeysResponse>('GET', 'person/passkeys'),
  });
  const reload = () => client.invalidateQueries({ queryKey: ['passkeys'] });
  const add = async (event: FormEvent) => {
    event.preventDefault();
    const { addPasskey, isCancelled } = await import('../session/passkeys.ts');
    await run(async () => {
      await confirmed(() => addPasskey(name.trim())).catch((problem: unknown) => {
        if (!isCancelled(problem)) throw problem;
      });
      setName('');
      await reload();
    });
  };
  const remove = (id: string) =>
    run(async () => {
      await confirmed(() => sessionRequest('DELETE', `person/passkeys/${id}`));
      await reload();
    });
  const isHere = ways?.passkeys === location.origin && 'PublicKeyCredential' in window;
  const columns = [
    { title: 'Passkey', cell: (passkey: Passkey) => passkey.name },
    { title: 'Last used', cell: ({ last_used_at: at }: Passkey) => at?.slice(0, 10) ?? 'never' },
    {
      title: '',
      cell: ({ id, name: known }: Passkey) => (
        <Button kind="ghost" aria-label={`Remove the passkey ${known}`} onClick={() => void remove(id)}>
          Remove
        </Button>
      ),
    },
  ];
  return (
    <Section
      title="Passkeys"
      about="Sign in with a finger, a face or a PIN instead of the password. A passkey counts as a second factor."
    >
      <div className="panel panel-pad stack">
        {error ? <ErrorNote error={error} /> : null}
        {data && data.passkeys.length > 0 ? (
          <List label="Passkeys" columns={columns} items={data.passkeys} keyOf={({ id }) => id} />
        ) : null}
        {isHere ? (
          <form className="row row-wrap" onSubmit={(event) => void add(event)}>
            <Field
              label="Name of a new passkey"
              value={name}
              onChange={setName}
              required
              maxLength={100}
              placeholder="Laptop"
            />
            <Button kind="primary" type="submit" isBusy={isBusy} disabled={name.trim() === ''}>
              Add a passkey
            </Button>
          </form>
        ) : (
          <p className="muted">
            {ways?.passkeys
              ? `Passkeys work under ${ways.passkeys}/console/.`
              : 'Passkeys need a host name of the console, which the operator sets.'}
          </p>
        )}
      </div>
    </Section>
  );
}
