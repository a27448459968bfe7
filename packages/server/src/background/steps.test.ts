import { expect, it } from 'vitest';
import { openSteps } from './steps.ts';

it('a step that hangs holds up no other, is not begun twice, and is reported once', async () => {
  const slow: string[] = [];
  const { step, settled } = openSteps(20, new AbortController().signal, (what) => slow.push(what));
  const begun: string[] = [];
  let end = () => {};
  const hang = () =>
    step('hangs', () => {
      begun.push('hangs');
      return new Promise<void>((resolve) => {
        end = resolve;
      });
    });
  const other = () => step('other', async () => void begun.push('other'));
  for (let round = 0; round < 3; round++) {
    await hang();
    await other();
  }
  expect(begun).toEqual(['hangs', 'other', 'other', 'other']);
  expect(slow).toEqual(['hangs']);
  end();
  await settled();
  const again = hang();
  expect(begun.at(-1)).toBe('hangs');
  end();
  await again;
  expect(slow).toEqual(['hangs']);
});

it('when the work is to end, no step is waited for', async () => {
  const ending = new AbortController();
  const { step } = openSteps(60_000, ending.signal, () => {});
  const waiting = step('hangs', () => new Promise(() => {}));
  ending.abort();
  await waiting;
});
