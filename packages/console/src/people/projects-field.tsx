// Which projects a member sees: all of the account, or some that are ticked.
import { useQuery } from '@tanstack/react-query';
import { useDeferredValue, useState } from 'react';
import { foundProjectsQuery } from '../api/queries.ts';
import { CheckField, Field } from '../ui/field.tsx';

type Props = {
  /** Slugs. null: all projects. */
  value: readonly string[] | null;
  onChange: (value: readonly string[] | null) => void;
};

export function ProjectsField({ value, onChange }: Props) {
  const [search, setSearch] = useState('');
  const { data: found = [] } = useQuery({
    ...foundProjectsQuery(useDeferredValue(search.trim().slice(0, 100))),
    enabled: value !== null,
  });
  const others = found.map(({ slug }) => slug).filter((slug) => !value?.includes(slug));
  const toggle = (slug: string, isOn: boolean) =>
    onChange(isOn ? [...(value ?? []), slug] : (value ?? []).filter((other) => other !== slug));
  return (
    <fieldset className="fieldset">
      <legend className="field-label">Projects</legend>
      <CheckField
        label="Only some projects"
        help="Others do not exist for this member."
        checked={value !== null}
        onChange={(isLimited) => onChange(isLimited ? [] : null)}
      />
      {value !== null ? (
        <>
          <Field
            label="Find a project"
            isLabelHidden
            type="search"
            placeholder="Find a project"
            value={search}
            onChange={setSearch}
            maxLength={100}
          />
          <div className="stack-s member-projects">
            {[...value, ...others].map((slug) => (
              <CheckField
                key={slug}
                label={slug}
                checked={value.includes(slug)}
                onChange={(isOn) => toggle(slug, isOn)}
              />
            ))}
          </div>
        </>
      ) : null}
    </fieldset>
  );
}
