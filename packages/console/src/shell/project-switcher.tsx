import { useQuery } from '@tanstack/react-query';
import { useDeferredValue, useState } from 'react';
import { Link } from 'wouter';
import { foundProjectsQuery, projectQuery } from '../api/queries.ts';
import { Field } from '../ui/field.tsx';
import { Icon } from '../ui/icons.tsx';
import { Popover } from '../ui/menu.tsx';

export function ProjectSwitcher({ slug }: { slug: string }) {
  const { data: current } = useQuery(projectQuery(slug));
  return (
    <Popover
      label="Switch project"
      trigger={(props) => (
        <button type="button" className="switcher" {...props}>
          <span className="grow">
            <span className="switcher-name truncate">{current?.name ?? slug}</span>
            <span className="switcher-slug truncate mono">{slug}</span>
          </span>
          <Icon name="chevron" />
        </button>
      )}
    >
      {(close) => <ProjectPicker slug={slug} onPick={close} />}
    </Popover>
  );
}

function ProjectPicker({ slug, onPick }: { slug: string; onPick: () => void }) {
  const [search, setSearch] = useState('');
  const { data: found } = useQuery(foundProjectsQuery(useDeferredValue(search.trim())));
  return (
    <div className="stack-s">
      <Field
        label="Find a project"
        isLabelHidden
        placeholder="Find a project"
        value={search}
        onChange={setSearch}
        maxLength={100}
      />
      <ul>
        {found?.map((project) => (
          <li key={project.id}>
            <Link
              href={`/projects/${project.slug}/tables`}
              className="menu-item"
              onClick={onPick}
              aria-current={project.slug === slug ? 'true' : undefined}
            >
              <Icon name="database" />
              <span className="menu-item-label">{project.name}</span>
              {project.slug === slug ? <Icon name="check" /> : null}
            </Link>
          </li>
        ))}
      </ul>
      {found?.length === 0 ? <p className="muted">No project matches.</p> : null}
    </div>
  );
}
