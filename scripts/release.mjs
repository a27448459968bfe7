// npm run release -- <version> [--client <version>] [--dry-run]: versions, changelog, tarballs, commit and tag. It never
// pushes or publishes; it prints the two commands that do. A failure puts everything back.
import { spawnSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import {
  clientName,
  editChangelog,
  editLock,
  editManifest,
  editReadme,
  entriesOf,
  parseRequest,
  problemsOf,
  versionsAfter,
} from './release-edits.mjs';
import { root, setup } from './setup.mjs';
import { packAndCheck, publishedPackages, tarballName } from './tarballs.mjs';

const read = (file) => readFileSync(path.join(root, file), 'utf8');
const write = (file, text) => writeFileSync(path.join(root, file), text);

try {
  await release(parseRequest(process.argv.slice(2)));
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}

async function release(request) {
  const packages = publishedPackages(root);
  const state = readState(packages);
  const problems = problemsOf(request, state);
  if (problems.length > 0) throw new Error(`No release:\n- ${problems.join('\n- ')}`);

  const versions = versionsAfter(request, state.manifests);
  const edits = editsOf(request, packages, versions);
  const folder = `dist/release-${request.version}`;
  describe(request, state, versions, edits, folder);
  // Without the "--" npm takes --dry-run for a flag of its own, and the script would make a real release.
  if (request.dryRun || process.env.npm_config_dry_run === 'true') {
    console.log('\nDry run: nothing was changed.');
    return;
  }
  build(packages);
  await commit(request, packages, versions, edits, folder);
  const fresh = packages.filter(
    ({ manifest: { name } }) => name !== clientName || request.client || !state.lastTag,
  );
  const tarballs = fresh.map(({ manifest: { name } }) => `./${folder}/${tarballName(name, versions[name])}`);
  console.log(`\nDone. Nothing has left this machine yet. To publish:\n
  git push --atomic origin main v${request.version}
  ${tarballs.map((file) => `npm publish ${file} --access public`).join(' && ')}`);
}

function readState(packages) {
  const described = git(['describe', '--tags', '--abbrev=0', '--match', 'v*'], { mayFail: true });
  const lastTag = described === '' ? null : described;
  // Files that are packed, or that decide what is packed.
  const client = ['src', 'build.mjs', 'package.json', 'README.md'].map((name) => `packages/client/${name}`);
  return {
    status: git(['status', '--short']),
    branch: git(['branch', '--show-current']),
    tags: git(['tag']).split('\n'),
    lastTag,
    clientChanged:
      lastTag !== null &&
      git(['diff', '--name-only', lastTag, '--', ...client, ':!packages/client/src/*.test.ts']) !== '',
    changelog: read('CHANGELOG.md'),
    manifests: packages.map(({ manifest }) => manifest),
  };
}

/** The new text of each file that changes. */
function editsOf({ version }, packages, versions) {
  const date = new Date().toISOString().slice(0, 10);
  const old = packages.find(({ manifest }) => manifest.name === 'rowhouse').manifest.version;
  const texts = {
    'CHANGELOG.md': editChangelog(read('CHANGELOG.md'), { version, date, client: versions[clientName] }),
    'README.md': editReadme(read('README.md'), old, version),
    'package-lock.json': editLock(read('package-lock.json'), versions),
  };
  for (const { folder, text } of packages) texts[`${folder}/package.json`] = editManifest(text, versions);
  return Object.entries(texts).filter(([file, text]) => text !== read(file));
}

function describe({ version }, { manifests, changelog }, versions, edits, folder) {
  console.log(`Release ${version}`);
  for (const { name, version: old } of manifests)
    console.log(
      `  ${name.padEnd(18)} ${old === versions[name] ? `${old} (unchanged)` : `${old} → ${versions[name]}`}`,
    );
  console.log(`  changelog          ${entriesOf(changelog)} entries`);
  console.log(`  files              ${edits.map(([file]) => file).join(', ')}`);
  console.log(`  tarballs           ${folder}`);
  console.log(`  commit and tag     "Release ${version}", v${version}`);
}

/**
 * From nothing: the compiler leaves the output of sources that are gone, and it would be packed. Without its .tsbuildinfo
 * it does not take the output for up to date.
 */
function build(packages) {
  for (const { folder } of packages)
    for (const output of ['dist', 'tsconfig.tsbuildinfo'])
      rmSync(path.join(root, folder, output), { recursive: true, force: true });
  // Before versions change: a changed lock file would install everything again.
  setup();
}

async function commit({ version }, packages, versions, edits, folder) {
  const start = git(['rev-parse', 'HEAD']);
  const originals = edits.map(([file]) => [file, read(file)]);
  try {
    for (const [file, text] of edits) write(file, text);
    await packAndCheck(root, packages, versions, path.join(root, folder));
    git(['commit', '--quiet', '--message', `Release ${version}`, '--', ...edits.map(([file]) => file)]);
    git(['tag', '--annotate', '--message', `Rowhouse ${version}`, `v${version}`]);
  } catch (error) {
    git(['reset', '--quiet', start]);
    for (const [file, text] of originals) write(file, text);
    rmSync(path.join(root, folder), { recursive: true, force: true });
    throw new Error(`${error.message}\nNo release: all files are as they were.`);
  }
}

function git(args, { mayFail = false } = {}) {
  const { status, stdout, stderr } = spawnSync('git', args, { cwd: root, encoding: 'utf8' });
  if (status !== 0 && !mayFail) throw new Error(`git ${args[0]} failed: ${stderr}`);
  return status === 0 ? stdout.trimEnd() : '';
}
