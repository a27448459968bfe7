// Before a person signs out: texts of open tabs that the server does not have yet become drafts there.
import { isUnsaved, loadAllTabs } from './drafts.ts';
import { writeDraft } from './saved-queries.ts';

export async function keepDrafts(): Promise<void> {
  const unsaved = loadAllTabs().flatMap(({ slug, tabs }) =>
    tabs.open.filter(isUnsaved).map((tab) => ({ slug, tab })),
  );
  await Promise.allSettled(unsaved.map(({ slug, tab }) => writeDraft(slug, tab)));
}
