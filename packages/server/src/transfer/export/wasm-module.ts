// pg_dump 18 as WebAssembly, out of @electric-sql/pglite-tools. The package exports only a function that holds the whole
// dump in memory and writes INSERTs; the module's factory is inside. It is taken out by the text around it, which is why
// the version is pinned: another one fails here at once instead of dumping something else.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { compileFunction } from 'node:vm';

/** The parts of the emscripten module that are used. */
export type DumpModule = {
  ENV: Record<string, string>;
  HEAPU8: Uint8Array;
  HEAP32: Int32Array;
  FS: {
    makedev(major: number, minor: number): number;
    registerDevice(device: number, operations: object): void;
    mkdev(file: string, mode: number, device: number): void;
  };
  addFunction(act: (pointer: number, size: number) => number, signature: 'iii'): number;
  callMain(args: string[]): number;
  ___errno_location(): number;
  _pgl_set_rw_cbs(read: number, write: number): void;
};

type Options = {
  noExitRuntime: boolean;
  wasmBinary: Uint8Array;
  print(line: string): void;
  printErr(line: string): void;
  onExit(code: number): void;
  preRun: ((module: DumpModule) => void)[];
};
export type ModuleOptions = Omit<Options, 'wasmBinary' | 'noExitRuntime'>;

/** The major version of this pg_dump: it reads servers of this version and older ones. */
export const wasmMajor = 18;

const pagesInMb = 16;

export async function loadDumpModule(options: ModuleOptions, maxMemoryMb: number): Promise<DumpModule> {
  const require = createRequire(import.meta.url);
  const file = require.resolve('@electric-sql/pglite-tools/pg_dump');
  const text = readFileSync(file, 'utf8');
  const [, name] = /var (\w+)=\w+;var \w+="\/tmp\/out\.sql"/.exec(text) ?? [];
  const dynamicImport = 'await import("module")';
  const memoryLimit = 'maximum:32768';
  const noMemory = 'if(s)return!0}return!1};_emscripten_resize_heap';
  const tooMuch = 'if(e>t)return!1;for(var n=1;n<=4;n*=2)';
  const parts = [dynamicImport, memoryLimit, noMemory, tooMuch];
  if (!name || parts.some((part) => text.split(part).length !== 2))
    throw new Error('@electric-sql/pglite-tools is another version.');
  // Code that is compiled here has no loader for import().
  const adapted = text
    .replace(dynamicImport, 'outerRequire("module")')
    .replace(memoryLimit, `maximum:${maxMemoryMb * pagesInMb}`)
    // malloc would return NULL, and pg_dump does not notice that everywhere: it left out definitions of 100 MB and reported success.
    .replace(noMemory, noMemory.replace('return!1', 'throw new Error("out of memory")'))
    .replace(tooMuch, tooMuch.replace('return!1', 'throw new Error("out of memory")'));
  const changed = `${adapted}\nmodule.exports.factory = ${name};`;
  const module: { exports: { factory?: (options: Options) => Promise<DumpModule> } } = { exports: {} };
  compileFunction(changed, ['module', 'outerRequire', '__filename'], { filename: file })(
    module,
    require,
    file,
  );
  if (!module.exports.factory) throw new Error('The factory of pg_dump was not found.');
  const wasmBinary = readFileSync(path.join(path.dirname(file), 'pg_dump.wasm'));
  return module.exports.factory({ ...options, noExitRuntime: false, wasmBinary });
}
