// The size of a large cache. Given `max`, lru-cache reserves memory for that many entries when it is opened: the caches of a
// service that serves ten projects took 8 MB. Given a sum of sizes, it grows with its entries.

/** Options of an LRUCache for at most this many entries. */
export function upTo(entries: number) {
  return { maxSize: entries, sizeCalculation: () => 1 };
}
