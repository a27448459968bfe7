import type { SchemaResponse } from '@rowhouse/api';
import { type ReactNode, useState } from 'react';
import { mayWrite } from '../session/may.ts';
import { useSession } from '../session/use-session.ts';
import { isDroppable, isOfConstraint } from '../tables/table-objects.ts';
import { Badge } from '../ui/badge.tsx';
import { Button } from '../ui/button.tsx';
import { Code } from '../ui/code.tsx';
import { EmptyState } from '../ui/empty-state.tsx';
import { formatBytes } from '../ui/format.ts';
import { List } from '../ui/list.tsx';
import { DropDialog, type Droppable } from './drop-dialog.tsx';

export const definitionTabs = [
  { key: 'views', label: 'Views' },
  { key: 'functions', label: 'Functions' },
  { key: 'indexes', label: 'Indexes' },
  { key: 'constraints', label: 'Constraints' },
  { key: 'policies', label: 'Policies' },
  { key: 'triggers', label: 'Triggers' },
  { key: 'extensions', label: 'Extensions' },
] as const;
export type DefinitionTab = (typeof definitionTabs)[number]['key'];

type Entry = {
  key: string;
  name: string;
  of: string;
  badges: ReactNode;
  text: string | null;
  /** Missing or null: it cannot be dropped here. */
  drop?: Droppable | null;
};
type Props = { slug: string; tab: DefinitionTab; schema: SchemaResponse };

export function Definitions({ slug, tab, schema }: Props) {
  const isWritable = mayWrite(useSession());
  const [dropped, setDropped] = useState<Droppable | null>(null);
  const entries = readers[tab](schema);
  const label = definitionTabs.find(({ key }) => key === tab)?.label ?? tab;
  if (entries.length === 0) return <EmptyState icon="schema" title={`No ${label.toLowerCase()}`} />;
  return (
    <div className="panel">
      <List
        label={label}
        columns={
          isWritable && entries.some(({ drop }) => drop) ? [...columns, dropColumn(setDropped)] : columns
        }
        items={entries}
        keyOf={({ key }) => key}
      />
      {dropped ? <DropDialog slug={slug} object={dropped} onClose={() => setDropped(null)} /> : null}
    </div>
  );
}

const columns = [
  {
    title: 'Name',
    cell: ({ name, of, badges }: Entry) => (
      <span className="definition">
        <span className="mono">{name}</span>
        {of ? <span className="faint mono">{of}</span> : null}
        <span className="row row-wrap">{badges}</span>
      </span>
    ),
  },
  {
    title: 'Definition',
    cell: ({ text }: Entry) => (text ? <Code text={text} /> : <span className="faint">–</span>),
  },
];

const dropColumn = (onDrop: (object: Droppable) => void) => ({
  title: 'Actions',
  isTitleHidden: true,
  align: 'end' as const,
  cell: ({ name, drop }: Entry) =>
    drop ? (
      <Button size="small" aria-label={`Drop ${name}`} onClick={() => onDrop(drop)}>
        Drop
      </Button>
    ) : null,
});

const tableOf = ({ schema, table }: { schema: string; table: string }) =>
  schema === 'public' ? table : `${schema}.${table}`;

const objectOf = ({ schema, table, name }: Omit<Droppable, 'kind'>) => ({ schema, table, name });

const readers: Record<DefinitionTab, (schema: SchemaResponse) => Entry[]> = {
  views: ({ views = [] }) =>
    views.map(({ schema, name, kind, security_invoker, definition }) => ({
      key: `${schema}.${name}`,
      name,
      of: schema === 'public' ? '' : schema,
      badges: (
        <>
          {kind === 'materialized_view' ? <Badge>materialized</Badge> : null}
          {security_invoker ? <Badge tone="info">security invoker</Badge> : null}
        </>
      ),
      text: definition,
    })),
  functions: ({ functions }) =>
    functions.map((entry, index) => ({
      key: `${String(entry.schema)}.${String(entry.name)} ${index}`,
      name: String(entry.name),
      of: entry.schema === 'public' ? '' : String(entry.schema ?? ''),
      badges: null,
      text: typeof entry.definition === 'string' ? entry.definition : null,
    })),
  indexes: ({ indexes = [], ...parts }) =>
    indexes.map((index) => ({
      key: `${index.schema}.${index.name}`,
      name: index.name,
      of: tableOf(index),
      badges: (
        <>
          {index.primary ? (
            <Badge tone="info">primary key</Badge>
          ) : index.unique ? (
            <Badge>unique</Badge>
          ) : null}
          {index.valid ? null : <Badge tone="bad">invalid</Badge>}
          <span className="faint">{formatBytes(index.size_bytes)}</span>
        </>
      ),
      text: index.definition,
      drop: isOfConstraint(index, parts) ? null : { kind: 'index', ...objectOf(index) },
    })),
  constraints: ({ constraints = [] }) =>
    constraints.map((constraint) => ({
      key: `${constraint.schema}.${constraint.table}.${constraint.name}`,
      name: constraint.name,
      of: tableOf(constraint),
      badges: <Badge>{constraint.kind.replace('_', ' ')}</Badge>,
      text: constraint.definition,
      drop: isDroppable(constraint) ? { kind: 'constraint', ...objectOf(constraint) } : null,
    })),
  policies: ({ policies = [] }) =>
    policies.map((policy) => ({
      key: `${policy.schema}.${policy.table}.${policy.name}`,
      name: policy.name,
      of: tableOf(policy),
      badges: (
        <>
          <Badge>{policy.command}</Badge>
          {policy.permissive ? null : <Badge tone="warn">restrictive</Badge>}
          <span className="faint">{policy.roles.join(', ')}</span>
        </>
      ),
      text: [
        policy.using ? `using (${policy.using})` : '',
        policy.check ? `with check (${policy.check})` : '',
      ]
        .filter(Boolean)
        .join('\n'),
      drop: { kind: 'policy', ...objectOf(policy) },
    })),
  triggers: ({ triggers = [] }) =>
    triggers.map((trigger) => ({
      key: `${trigger.schema}.${trigger.table}.${trigger.name}`,
      name: trigger.name,
      of: tableOf(trigger),
      badges: trigger.enabled ? null : <Badge tone="warn">disabled</Badge>,
      text: trigger.definition,
    })),
  extensions: ({ extensions = [] }) =>
    extensions.map(({ name, version, default_version, comment }) => ({
      key: name,
      name,
      of: comment ?? '',
      badges: version ? <Badge tone="good">{version}</Badge> : <Badge>available</Badge>,
      text: version ? null : `create extension ${name} -- ${default_version ?? ''}`,
    })),
};
