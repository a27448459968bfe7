import { type FormEvent, useId, useState } from 'react';
import { Button } from '../ui/button.tsx';
import { Field, SelectField } from '../ui/field.tsx';
import type { Filters } from './audit-filters.ts';

/** As they are documented. The part before the dot finds all of a kind. */
const kinds = ['project', 'key', 'account_key', 'member', 'session', 'user', 'account', 'server', 'backup'];

type Props = { filters: Filters; onChange: (filters: Filters) => void };

export function FilterForm({ filters, onChange }: Props) {
  const [draft, setDraft] = useState(filters);
  const listId = useId();
  const field = (name: keyof Filters) => ({
    value: draft[name] ?? '',
    onChange: (value: string) => setDraft({ ...draft, [name]: value }),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const set = Object.entries(draft).filter(([, value]) => value.trim() !== '');
    onChange(Object.fromEntries(set));
  };
  return (
    <form className="audit-filters" aria-label="Filters" onSubmit={submit}>
      <Field label="Who" placeholder="email, or id of a key" maxLength={300} {...field('actor')} />
      <Field label="Action" placeholder="project.delete" maxLength={300} list={listId} {...field('action')} />
      <datalist id={listId}>
        {kinds.map((kind) => (
          <option key={kind} value={kind} />
        ))}
      </datalist>
      <Field label="Project" placeholder="slug" maxLength={63} {...field('project')} />
      <SelectField
        label="Outcome"
        options={[{ value: '', label: 'any' }, 'done', 'refused', 'failed']}
        {...field('outcome')}
      />
      <Field label="From" type="datetime-local" {...field('from')} />
      <Field label="Until" type="datetime-local" {...field('to')} />
      <div className="row">
        <Button type="submit">Filter</Button>
        {Object.keys(filters).length > 0 ? (
          <Button kind="ghost" onClick={() => onChange({})}>
            Clear
          </Button>
        ) : null}
      </div>
    </form>
  );
}
