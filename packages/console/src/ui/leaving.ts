// Unsaved work on the current screen. Links, the palette and the browser's Back ask first; before the tab is
// closed or reloaded, the browser itself asks.
import { useEffect } from 'react';
import type { AroundNavHandler } from 'wouter';
import { ask } from './ask.ts';

/** `survivesSearch`: it stays while only the part of the address after "?" changes. */
type Loss = { what: string; survivesSearch: boolean };

const losses = new Set<Loss>();
const held = new Set<Loss>();
let isFree = false;
/** The address of the screen that is shown. */
let shown = location.href;

/** `what`: a sentence that says what leaving loses. null: nothing. */
export function useUnsaved(what: string | null, { survivesSearch = false } = {}) {
  useEffect(() => {
    if (what === null) return;
    const loss = { what, survivesSearch };
    losses.add(loss);
    addEventListener('beforeunload', refuse);
    return () => {
      losses.delete(loss);
      if (losses.size === 0) removeEventListener('beforeunload', refuse);
    };
  }, [what, survivesSearch]);
}

/** For actions that leave the screen without a new address, such as signing out. */
export function mayLeave(): Promise<boolean> {
  return askAbout([...losses, ...held]);
}

/** Work that no screen interrupts, but closing the tab or signing out does. Returns what ends it. */
export function holdTab(what: string): () => void {
  const loss = { what, survivesSearch: true };
  held.add(loss);
  addEventListener('beforeunload', refuseHeld);
  return () => {
    held.delete(loss);
    if (held.size === 0) removeEventListener('beforeunload', refuseHeld);
  };
}

/** The person has agreed already, or everything is saved. */
export function leaveFreely(leave: () => void) {
  isFree = true;
  try {
    leave();
  } finally {
    isFree = false;
  }
}

/** Every navigation inside the console. */
export const guardNavigation: AroundNavHandler = (navigate, to, options) => {
  const lost = lostBy(location.href, new URL(to, location.href));
  if (lost.length === 0) return navigate(to, options);
  void askAbout(lost).then((isLeaving) => {
    if (isLeaving) leaveFreely(() => navigate(to, options));
  });
};

/** Back and Forward change the address before anybody is asked, so it is set back until there is an answer. */
export function guardHistory(): () => void {
  const follow = () => {
    shown = location.href;
  };
  const onPop = (event: PopStateEvent) => {
    const lost = lostBy(shown, new URL(location.href));
    isFree = false;
    if (lost.length === 0) return follow();
    event.stopImmediatePropagation();
    // A new entry: one step back from it is where the person wanted to go, even if that was Forward.
    history.pushState(null, '', shown);
    void askAbout(lost).then((isLeaving) => {
      if (!isLeaving) return;
      isFree = true;
      history.back();
    });
  };
  const changes = ['pushState', 'replaceState'];
  follow();
  // Before all other listeners: the router must not see the refused address.
  addEventListener('popstate', onPop, { capture: true });
  for (const change of changes) addEventListener(change, follow);
  return () => {
    removeEventListener('popstate', onPop, { capture: true });
    for (const change of changes) removeEventListener(change, follow);
  };
}

function lostBy(from: string, to: URL): Loss[] {
  if (isFree) return [];
  const { pathname, search } = new URL(from);
  if (to.pathname !== pathname) return [...losses];
  return to.search === search ? [] : [...losses].filter(({ survivesSearch }) => !survivesSearch);
}

async function askAbout(lost: readonly Loss[]): Promise<boolean> {
  if (lost.length === 0) return true;
  return ask({
    title: 'Leave this page?',
    action: 'Leave',
    about: 'Something on it is not saved or not finished:',
    items: [...new Set(lost.map(({ what }) => what))],
  });
}

function refuse(event: BeforeUnloadEvent) {
  event.preventDefault();
}

/** Not the same function: each is removed by itself. */
const refuseHeld = (event: BeforeUnloadEvent) => refuse(event);
