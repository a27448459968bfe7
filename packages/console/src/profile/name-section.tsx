import type { ConsoleProfileResponse } from '@rowhouse/api';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { sessionRequest } from '../api/request.ts';
import { Field } from '../ui/field.tsx';
import { FormPanel } from '../ui/form-panel.tsx';
import { toast } from '../ui/toast.tsx';

export function NameSection({ person }: { person: ConsoleProfileResponse['person'] }) {
  const client = useQueryClient();
  const [name, setName] = useState(person.name ?? '');
  const save = useMutation({
    mutationFn: () => sessionRequest('PATCH', 'person', { name: name.trim() || null }),
    onSuccess: async () => {
      toast.done('Saved.');
      setName(name.trim());
      void client.invalidateQueries({ queryKey: ['members'] });
      await client.invalidateQueries({ queryKey: ['person'] });
    },
  });
  return (
    <FormPanel
      title="Name"
      about="Members of your accounts see it beside your email address."
      error={save.error}
      isBusy={save.isPending}
      isChanged={name.trim() !== (person.name ?? '')}
      onSubmit={() => save.mutate()}
    >
      <Field
        label="Name"
        isLabelHidden
        value={name}
        onChange={setName}
        maxLength={100}
        autoComplete="name"
        placeholder="Ada Lovelace"
      />
    </FormPanel>
  );
}
