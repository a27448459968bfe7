// Before a person signs out: texts of open tabs that the server does not have yet become drafts there.
import { changeStored, isUnsaved, loadAllTabs, type Tab, titleOf } from './drafts.ts';
import { storedOf, writeDraft } from './saved-queries.ts';

/** A text that exists only in this tab of the browser. */
export type Lost = { id: string; slug: string; title: string };

/** Resolves within `waitMs`, to the texts that the server did not store by then. */
export async function keepDrafts(waitMs: number): Promise<Lost[]> {
  const unsaved = loadAllTabs().flatMap(({ slug, tabs }) =>
    tabs.open.filter(isUnsaved).map((tab) => ({ slug, tab })),
  );
  if (unsaved.length === 0) return [];
  const late = new Promise<false>((resolve) => setTimeout(() => resolve(false), waitMs));
  const isKept = await Promise.all(
    unsaved.map(({ slug, tab }) => Promise.race([keepDraft(slug, tab), late])),
  );
  return unsaved
    .filter((_, index) => !isKept[index])
    .map(({ slug, tab }) => ({ id: tab.id, slug, title: titleOf(tab) }));
}

async function keepDraft(slug: string, tab: Tab): Promise<boolean> {
  try {
    const written = await writeDraft(slug, tab);
    // The person may stay because of another text. The next attempt must not store this one twice.
    changeStored(slug, tab.id, { draft: storedOf(written) });
    return true;
  } catch {
    return false;
  }
}
