// Passkeys: the list, a new one, another name, removal.
import type { Passkey, PasskeysResponse } from '@rowhouse/api';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { confirmed, sessionRequest } from '../api/request.ts';
import { useAttempt } from '../session/use-attempt.ts';
import { useWays } from '../session/use-ways.ts';
import { ActionsMenu } from '../ui/actions-menu.tsx';
import { Button } from '../ui/button.tsx';
import { ErrorNote } from '../ui/error-state.tsx';
import { Field } from '../ui/field.tsx';
import { FormDialog } from '../ui/form-dialog.tsx';
import { formatAge } from '../ui/format.ts';
import { List } from '../ui/list.tsx';
import { Section } from '../ui/page.tsx';

export function PasskeysSection() {
  const client = useQueryClient();
  const [name, setName] = useState('');
  const [renamed, setRenamed] = useState<Passkey | null>(null);
  const { error, isBusy, run } = useAttempt();
  const ways = useWays();
  const { data } = useQuery({
    queryKey: ['passkeys'],
    queryFn: () => sessionRequest<PasskeysResponse>('GET', 'person/passkeys'),
  });
  const reload = () => client.invalidateQueries({ queryKey: ['passkeys'] });
  const add = async (event: FormEvent) => {
    event.preventDefault();
    const { addPasskey } = await import('../session/passkeys.ts');
    await run(async () => {
      if (!(await confirmed(() => addPasskey(name.trim())))) return;
      setName('');
      await reload();
    });
  };
  const remove = (id: string) =>
    run(async () => {
      await confirmed(() => sessionRequest('DELETE', `person/passkeys/${id}`));
      await reload();
    });
  const actions = {
    title: 'Actions',
    isTitleHidden: true,
    align: 'end' as const,
    cell: (passkey: Passkey) => (
      <ActionsMenu
        of={passkey.name}
        items={[
          { label: 'Rename', onSelect: () => setRenamed(passkey) },
          { label: 'Remove', isDanger: true, onSelect: () => void remove(passkey.id) },
        ]}
      />
    ),
  };
  return (
    <Section
      title="Passkeys"
      about="Sign in with a finger, a face or a PIN instead of the password. A passkey counts as a second factor."
    >
      <div className="panel panel-pad stack">
        {error ? <ErrorNote error={error} /> : null}
        {data && data.passkeys.length > 0 ? (
          <List
            label="Passkeys"
            columns={[...columns, actions]}
            items={data.passkeys}
            keyOf={({ id }) => id}
          />
        ) : null}
        {ways?.hasPasskeys ? (
          <form className="filter-line" onSubmit={(event) => void add(event)}>
            <Field
              label="Name of a new passkey"
              isLabelHidden
              value={name}
              onChange={setName}
              required
              maxLength={100}
              placeholder="Laptop"
            />
            <Button type="submit" isBusy={isBusy} disabled={name.trim() === ''}>
              Add a passkey
            </Button>
          </form>
        ) : null}
        {ways && !ways.hasPasskeys ? <p className="muted">{whyNot(ways.passkeys)}</p> : null}
      </div>
      {renamed ? <RenamePasskey passkey={renamed} onDone={reload} onClose={() => setRenamed(null)} /> : null}
    </Section>
  );
}

function whyNot(origin: string | null): string {
  if (origin === null) return 'Passkeys need a host name of the console, which the operator sets.';
  return origin === location.origin
    ? 'This browser has no passkeys.'
    : `Passkeys work under ${origin}/console/.`;
}

type RenameProps = { passkey: Passkey; onDone: () => unknown; onClose: () => void };

function RenamePasskey({ passkey, onDone, onClose }: RenameProps) {
  const [name, setName] = useState(passkey.name);
  const rename = useMutation({
    mutationFn: () => sessionRequest('PATCH', `person/passkeys/${passkey.id}`, { name: name.trim() }),
    onSuccess: async () => {
      await onDone();
      onClose();
    },
  });
  return (
    <FormDialog
      title={`Rename ${passkey.name}`}
      action="Rename"
      error={rename.error}
      isBusy={rename.isPending}
      isReady={name.trim() !== ''}
      onSubmit={() => rename.mutate()}
      onClose={onClose}
    >
      <Field label="Name" value={name} onChange={setName} required autoFocus maxLength={100} />
    </FormDialog>
  );
}

const columns = [
  { title: 'Passkey', cell: ({ name }: Passkey) => name },
  {
    title: 'Added',
    cell: ({ created_at: at }: Passkey) => <span className="faint">{formatAge(at)}</span>,
  },
  {
    title: 'Last used',
    cell: ({ last_used_at: at }: Passkey) => <span className="faint">{at ? formatAge(at) : 'never'}</span>,
  },
];
