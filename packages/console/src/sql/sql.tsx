// The SQL screen: tabs, the editor, and what came of the last statement.

import type { SQLNamespace } from '@codemirror/lang-sql';
import type { SchemaResponse } from '@rowhouse/api';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useMemo, useRef, useState } from 'react';
import { useSearchParams } from 'wouter';
import { download, type Format, fileNameOf, formats } from '../api/download.ts';
import { schemaQuery } from '../api/queries.ts';
import { path } from '../api/request.ts';
import { titleOf } from '../drafts/drafts.ts';
import { readQuery } from '../drafts/saved-queries.ts';
import { mayWrite } from '../session/may.ts';
import { useSession } from '../session/use-session.ts';
import { Dialog } from '../ui/dialog.tsx';
import { formatBytes } from '../ui/format.ts';
import { usePageTitle } from '../ui/page.tsx';
import { Snippets } from '../ui/snippets.tsx';
import { toast } from '../ui/toast.tsx';
import { Editor, type EditorHandle } from './editor.tsx';
import { Library } from './library.tsx';
import { parametersOf, paramValues } from './params.ts';
import { ParamsForm } from './params-form.tsx';
import { Results } from './results.tsx';
import { SaveDialog } from './save-dialog.tsx';
import { SqlBar, TabStrip } from './sql-bar.tsx';
import { statementAt } from './statements.ts';
import { type Chosen, useRun } from './use-run.ts';
import { useTabs } from './use-tabs.ts';
import './sql.css';

type Open = 'code' | 'library' | 'save' | null;

export function Sql({ slug }: { slug: string }) {
  usePageTitle(`SQL · ${slug}`);
  const { data: schema } = useQuery(schemaQuery(slug));
  const namespace = useMemo(() => namespaceOf(schema), [schema]);
  const { tabs, current, problem, ...edit } = useTabs(slug);
  const [open, setOpen] = useState<Open>(null);
  const isWritable = mayWrite(useSession());
  const editor = useRef<EditorHandle | null>(null);
  const { outcome, isRunning, run, apply, explain, cancel, dismiss } = useRun(slug);
  useQueryOfAddress(slug, edit.open);
  if (!current) return null;

  const chosen = (): Chosen | null => {
    const handle = editor.current;
    if (!handle) return null;
    const { from, to } = handle.selection();
    const text = handle.text();
    const sql = from === to ? statementAt(text, from)?.text : text.slice(from, to).trim();
    return sql ? { sql, params: paramValues(sql, current.params) } : null;
  };
  const withChosen = (act: (chosen: Chosen) => unknown) => () => {
    const found = chosen();
    if (found) void act(found);
  };
  const save = () => {
    if (!isWritable) return;
    return current.saved ? void edit.save(current, current.saved.name).catch(toast.failed) : setOpen('save');
  };
  const parameters = parametersOf(current.text);
  const shared = open === 'code' ? chosen() : null;
  return (
    <div className="sql">
      <h1 className="visually-hidden">SQL</h1>
      <TabStrip tabs={tabs} onShow={edit.show} onClose={edit.close} onCreate={() => edit.create()} />
      <SqlBar
        tab={current}
        problem={problem}
        isRunning={isRunning}
        onRun={withChosen(run)}
        onCancel={cancel}
        onExplain={withChosen((found) => explain(found, false))}
        onAnalyze={withChosen((found) => explain(found, true))}
        onSave={save}
        onLibrary={() => setOpen('library')}
        onCode={() => setOpen('code')}
      />
      {parameters.length > 0 ? (
        <ParamsForm
          names={parameters}
          params={current.params}
          onChange={(params) => edit.change(current.id, { params })}
        />
      ) : null}
      <Editor
        documentKey={current.id}
        initial={current.text}
        schema={namespace}
        onChange={(text) => edit.change(current.id, { text })}
        onRun={withChosen(run)}
        onSave={save}
        onHandle={(handle) => {
          editor.current = handle;
        }}
      />
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: without it, only a mouse could scroll */}
      <section className="sql-results" aria-label="Result" tabIndex={0}>
        <Results
          outcome={outcome}
          onApply={(found, max) => void apply(found, max)}
          onExport={(found, format) => void exportRows(slug, found, format)}
          onDismiss={dismiss}
        />
      </section>
      {open === 'code' ? (
        <Dialog title="This statement as code" kind="wide" onClose={() => setOpen(null)}>
          <Snippets
            slug={slug}
            request={{
              method: 'POST',
              path: `projects/${slug}/query`,
              body: {
                query: shared?.sql ?? 'select 1',
                ...(shared && shared.params.length > 0 ? { params: shared.params } : {}),
              },
            }}
          />
        </Dialog>
      ) : null}
      {open === 'library' ? (
        <Library
          slug={slug}
          onOpen={(query) => {
            edit.open(query);
            setOpen(null);
          }}
          onText={(text) => {
            edit.create(text);
            setOpen(null);
          }}
          onDeleted={edit.forget}
          onClose={() => setOpen(null)}
        />
      ) : null}
      {open === 'save' ? (
        <SaveDialog
          name={titleOf(current)}
          onSave={(name) => edit.save(current, name)}
          onClose={() => setOpen(null)}
        />
      ) : null}
    </div>
  );
}

/** …/sql?query=<id> opens a saved query, and the address is then free for the next one. */
function useQueryOfAddress(slug: string, openQuery: ReturnType<typeof useTabs>['open']) {
  const [params, setParams] = useSearchParams();
  const id = params.get('query');
  const latest = useRef({ openQuery, setParams });
  latest.current = { openQuery, setParams };
  useEffect(() => {
    if (!id) return;
    readQuery(slug, id)
      .then((query) => latest.current.openQuery(query))
      .catch(toast.failed)
      .finally(() => latest.current.setParams({}, { replace: true }));
  }, [slug, id]);
}

/** The statement runs again, without a limit, and cannot change anything. */
async function exportRows(slug: string, { sql: query, params }: Chosen, format: Format) {
  const { type: accept, extension } = formats[format];
  try {
    const bytes = await download({
      method: 'POST',
      path: path`projects/${slug}/query`,
      accept,
      body: { query, params, read_only: true },
      fileName: `${fileNameOf(slug, 'result')}.${extension}`,
    });
    toast.done(`Exported ${formatBytes(bytes)}.`);
  } catch (error) {
    toast.failed(error);
  }
}

/** Tables and columns for completion, by schema. */
function namespaceOf(schema: SchemaResponse | undefined): SQLNamespace {
  const namespace: Record<string, Record<string, string[]>> = {};
  for (const table of schema?.tables ?? []) {
    namespace[table.schema] ??= {};
    const tables = namespace[table.schema];
    if (tables) tables[table.name] = table.columns.map(({ name }) => name);
  }
  return namespace;
}
