// Reports when a series of failures begins and when it has ended, not each of them.

type Report = {
  begin: (error: unknown) => void;
  end: () => void;
  /** Each failure. null: there is none any more, or the first attempt has succeeded. */
  record: (error: unknown) => void;
};

export type Reporter = {
  failed(error: unknown): void;
  ended(): void;
  /** null: the last attempt succeeded. */
  last(): unknown;
  /** Another process may have recorded since. */
  forget(): void;
};

export function openReporter({ begin, end, record }: Report): Reporter {
  /** undefined: nothing was attempted since the start. */
  let last: unknown;
  return {
    failed: (error) => {
      const before = last ?? null;
      last = error;
      if (before === null) begin(error);
      record(error);
    },
    ended: () => {
      const before = last;
      last = null;
      if (before === null) return;
      if (before !== undefined) end();
      record(null);
    },
    last: () => last ?? null,
    forget: () => {
      last = undefined;
    },
  };
}
