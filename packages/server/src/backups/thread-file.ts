/** The file of a thread in this folder. Beside this one once compiled; tests run the sources, but a thread cannot. */
export function threadFile(name: string): URL {
  const here = import.meta.url;
  return new URL(here.endsWith('.ts') ? `../../dist/backups/${name}` : `./${name}`, here);
}
