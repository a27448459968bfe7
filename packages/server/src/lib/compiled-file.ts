// The compiled file of a thread or a process. Tests run the sources, but a thread and a process cannot.

/** The file `name` beside the module whose `import.meta.url` is `here`. Beside a source: what it was compiled to. */
export function compiledFile(name: string, here: string): URL {
  const beside = new URL(name, here);
  return here.endsWith('.ts') ? new URL(beside.href.replace(/\/src\/(?!.*\/src\/)/, '/dist/')) : beside;
}
