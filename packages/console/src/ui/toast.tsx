// Short messages about something that has happened. They are read out and disappear; errors stay until they are closed.
import { useEffect, useSyncExternalStore } from 'react';
import { toApiError } from '../api/error.ts';
import { IconButton } from './button.tsx';
import { Icon } from './icons.tsx';
import { openListeners } from './listeners.ts';

type Toast = { id: number; kind: 'done' | 'failed'; text: string; hint?: string | undefined };

const shownMs = 4_000;
let toasts: readonly Toast[] = [];
let nextId = 1;
const { subscribe, tellAll } = openListeners();

export const toast = {
  done: (text: string) => add({ kind: 'done', text }),
  failed: (problem: unknown) => {
    const error = toApiError(problem);
    add({ kind: 'failed', text: error.message, hint: error.hint });
  },
};

export function Toasts() {
  const shown = useSyncExternalStore(subscribe, () => toasts);
  return (
    <div className="toasts" role="status" aria-live="polite">
      {shown.map((item) => (
        <ToastItem key={item.id} item={item} />
      ))}
    </div>
  );
}

function ToastItem({ item }: { item: Toast }) {
  useEffect(() => {
    if (item.kind === 'failed') return;
    const timer = setTimeout(() => remove(item.id), shownMs);
    return () => clearTimeout(timer);
  }, [item]);
  return (
    <div className={`toast toast-${item.kind}`}>
      <Icon name={item.kind === 'done' ? 'check' : 'alert'} />
      <div>
        <p>{item.text}</p>
        {item.hint ? <p className="muted">{item.hint}</p> : null}
      </div>
      <IconButton label="Dismiss" size="small" icon={<Icon name="close" />} onClick={() => remove(item.id)} />
    </div>
  );
}

function add(item: Omit<Toast, 'id'>) {
  set([...toasts.slice(-3), { ...item, id: nextId++ }]);
}

function remove(id: number) {
  set(toasts.filter((item) => item.id !== id));
}

function set(next: readonly Toast[]) {
  toasts = next;
  tellAll();
}
