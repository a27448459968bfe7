// A list of the service: awaiting it gives a page, iterating over it gives the entries of all pages.

export type List<Page, Entry> = PromiseLike<Page> & AsyncIterable<Entry>;

/** `name`: of the entries in a page. */
export function makeList<
  Name extends string,
  Entry,
  Page extends { has_more: boolean } & Record<Name, Entry[]>,
>(load: (page?: number) => Promise<Page>, name: Name, first?: number): List<Page, Page[Name][number]> {
  return {
    // biome-ignore lint/suspicious/noThenProperty: awaiting gives a page, iterating all of them
    then: (resolve, reject) => load(first).then(resolve, reject),
    async *[Symbol.asyncIterator]() {
      for (let number = first ?? 1; ; number++) {
        const page = await load(number);
        yield* page[name];
        if (!page.has_more) return;
      }
    },
  };
}
