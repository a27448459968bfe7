import { useSearchParams } from 'wouter';

/**
 * A parameter of the address as state, so that a view can be shared and Back leads to the one before. An empty
 * value removes it. A change from one text to another, as by typing, adds no entry to the history. `resets`: parameters that are
 * removed with every change.
 */
export function useParam(name: string, resets: readonly string[] = []): [string, (value: string) => void] {
  const [params, setParams] = useSearchParams();
  const value = params.get(name) ?? '';
  const set = (next: string) =>
    setParams(
      (before) => {
        const after = new URLSearchParams(before);
        for (const other of [name, ...resets]) after.delete(other);
        if (next !== '') after.set(name, next);
        return after;
      },
      { replace: value !== '' && next !== '' },
    );
  return [value, set];
}
