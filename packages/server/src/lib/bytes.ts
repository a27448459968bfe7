// Sizes in bytes, and in megabytes as the API tells them.
export const mb = 1024 * 1024;

/** With two decimals. A project can measure less than it did when it was new: it has 0 MB then. */
export function toMb(bytes: number): number {
  return Math.max(0, Math.round((bytes / mb) * 100) / 100);
}
