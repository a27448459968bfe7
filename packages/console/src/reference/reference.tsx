// The endpoints of this project, each as a program that can be pasted.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { schemaQuery } from '../api/queries.ts';
import { SelectField } from '../ui/field.tsx';
import { Page, Section } from '../ui/page.tsx';
import type { Request } from '../ui/snippet-texts.ts';
import { Snippets } from '../ui/snippets.tsx';
import { exampleRow } from './example-row.ts';

export function Reference({ slug }: { slug: string }) {
  const { data: schema } = useQuery(schemaQuery(slug));
  const names = (schema?.tables ?? []).map((table) =>
    table.schema === 'public' ? table.name : `${table.schema}.${table.name}`,
  );
  const [chosen, setChosen] = useState('');
  const name = chosen || names[0] || 'books';
  const table = schema?.tables.find(
    (candidate) => name === candidate.name || name === `${candidate.schema}.${candidate.name}`,
  );
  const base = `projects/${slug}`;
  const rows = `${base}/tables/${encodeURIComponent(name)}`;
  const key = encodeURIComponent(table?.primary_key[0] ?? 'id');
  const example = table ? exampleRow(table, schema?.enums ?? []) : { title: 'Tea' };
  const requests: { title: string; about: string; request: Request }[] = [
    {
      title: 'Run SQL',
      about: 'One statement with parameters.',
      request: {
        method: 'POST',
        path: `${base}/query`,
        body: { query: 'select $1::int + 1 as next', params: [41] },
      },
    },
    {
      title: 'Read rows',
      about: 'A page by primary key. next_cursor continues it.',
      request: { method: 'GET', path: `${rows}?limit=20` },
    },
    {
      title: 'Filter and sort',
      about: 'The operators of PostgREST.',
      request: { method: 'GET', path: `${rows}?${key}=gte.10&order=${key}.desc` },
    },
    {
      title: 'Insert',
      about: 'An object is one row, an array many.',
      request: { method: 'POST', path: rows, body: example },
    },
    {
      title: 'Change',
      about: 'All rows that match the filter.',
      request: { method: 'PATCH', path: `${rows}?${key}=eq.1`, body: example },
    },
    {
      title: 'Delete',
      about: 'With a limit, so that a wrong filter changes nothing.',
      request: { method: 'DELETE', path: `${rows}?${key}=eq.1&max_affected=1` },
    },
    {
      title: 'Sign a user up',
      about: 'Returns the user and a session.',
      request: {
        method: 'POST',
        path: `${base}/auth/signup`,
        body: { email: 'ada@example.com', password: 'correct horse' },
      },
    },
    {
      title: 'Sign a user in',
      about: 'The same answer.',
      request: {
        method: 'POST',
        path: `${base}/auth/signin`,
        body: { email: 'ada@example.com', password: 'correct horse' },
      },
    },
  ];
  return (
    <Page
      title="API"
      about={
        <>
          Everything here works with a key of this project. <a href="/docs">All endpoints</a>
        </>
      }
    >
      {names.length > 0 ? (
        <div className="filter-line">
          <SelectField label="Table in the examples" value={name} onChange={setChosen} options={names} />
        </div>
      ) : null}
      {requests.map(({ title, about, request }) => (
        <Section key={title} title={title} about={about}>
          <Snippets slug={slug} request={request} />
        </Section>
      ))}
    </Page>
  );
}
