// What the service gives out once, such as a key. It belongs to no screen: a person who leaves the form while its request runs
// gets it on whatever screen is shown then.
import { type ReactNode, useEffect, useRef, useSyncExternalStore } from 'react';
import { holdTab, leaveFreely } from '../ui/leaving.ts';
import { openListeners } from '../ui/listeners.ts';
import { toast } from '../ui/toast.tsx';
import { textOwner } from './session.ts';

type Show = (onClose: () => void) => ReactNode;
type Item = { id: number; owner: string | null; show: Show };

let items: readonly Item[] = [];
let nextId = 1;
const { subscribe, tellAll } = openListeners();

/** For the person who is signed in now, and for nobody else. */
function showOnce(show: Show, owner = textOwner()) {
  set([...items, { id: nextId++, owner, show }]);
}

/** Once per session, above all screens. */
export function ShownOnce() {
  const [first] = useSyncExternalStore(subscribe, () => items);
  const isForeign = first !== undefined && first.owner !== textOwner();
  useEffect(() => {
    if (isForeign) set(items.filter(({ owner }) => owner === textOwner()));
  }, [isForeign]);
  if (!first || isForeign) return null;
  return <div key={first.id}>{first.show(() => set(items.filter(({ id }) => id !== first.id)))}</div>;
}

/**
 * Sends the request of a form and shows what came of it, whether the form is still open or not. `onClose`: closes the form.
 * Until then, closing the tab asks.
 */
export function useShownOnce(onClose: () => void) {
  const isOpen = useRef(true);
  useEffect(() => {
    isOpen.current = true;
    return () => {
      isOpen.current = false;
    };
  }, []);
  return async <T,>(send: () => Promise<T>, show: (answer: T, onClose: () => void) => ReactNode) => {
    const owner = textOwner();
    const release = holdTab('The answer to your last request is shown once, and has not arrived yet.');
    try {
      const answer = await send();
      showOnce((close) => show(answer, close), owner);
      if (isOpen.current) leaveFreely(onClose);
      return answer;
    } catch (error) {
      if (!isOpen.current) toast.failed(error);
      throw error;
    } finally {
      release();
    }
  };
}

function set(next: readonly Item[]) {
  items = next;
  tellAll();
}
