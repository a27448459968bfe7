// The staged edits of one table. If the session ends by itself, they wait in the memory of the page for the same person with the
// same rights, as the texts of the SQL editor do.
import { useEffect, useRef, useState } from 'react';
import { countOf, emptyHistory, type History, stagedOf } from '../grid/staged.ts';
import { isSignedIn, textOwner } from '../session/session.ts';

const kept = new Map<string, History>();

export function useKeptEdits(slug: string, table: string) {
  const [owner] = useState(textOwner);
  const key = JSON.stringify([owner, slug, table]);
  const [history, setHistory] = useState<History>(() => kept.get(key) ?? emptyHistory);
  const latest = useRef(history);
  latest.current = history;
  useEffect(() => {
    kept.delete(key);
    return () => {
      // A person who signs out has agreed to lose them, and is no longer the owner.
      const isEnded = !isSignedIn() && textOwner() === owner;
      if (isEnded && countOf(stagedOf(latest.current)) > 0) kept.set(key, latest.current);
    };
  }, [key, owner]);
  return [history, setHistory] as const;
}
