// The arguments of a release, the reasons to refuse it, and the new text of each file: pure functions, so that a dry run
// and the release itself cannot differ.
import { parseArgs } from 'node:util';

/** It keeps its own version: programs depend on its API, which changes less often than the service. */
export const clientName = '@rowhouse/client';

const usage = 'Usage: npm run release -- <version> [--client <version>] [--dry-run]';

/** Versions are X.Y.Z; a pre-release would need a dist-tag of its own on npm. */
export function parseRequest(args) {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: { client: { type: 'string' }, 'dry-run': { type: 'boolean', default: false } },
  });
  const [version, ...rest] = positionals;
  if (version === undefined || rest.length > 0) throw new Error(usage);
  for (const given of [version, values.client ?? version])
    if (!/^(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}$/.test(given))
      throw new Error(`"${given}" is not a version such as 1.2.3. ${usage}`);
  return { version, client: values.client, dryRun: values['dry-run'] };
}

export function isGreater(version, than) {
  const [left, right] = [version, than].map((text) => text.split('.').map(Number));
  const index = left.findIndex((number, at) => number !== right[at]);
  return index >= 0 && left[index] > right[index];
}

/**
 * Why this release cannot be made. `state`: `status` (of git, short), `branch`, `tags`, `lastTag`, `clientChanged` (since
 * the last tag), `changelog` (its text) and `manifests` (of the packages that are published).
 */
export function problemsOf({ version, client }, state) {
  const problems = [];
  if (state.status !== '')
    problems.push(`The working tree has changes. Commit or stash them:\n${state.status}`);
  if (state.branch !== 'main') problems.push(`The branch is "${state.branch}". Switch to main.`);
  if (state.tags.includes(`v${version}`)) problems.push(`The tag v${version} exists already.`);
  const current = new Set(state.manifests.filter(isProduct).map((manifest) => manifest.version));
  if (current.size > 1) problems.push(`The packages have different versions: ${[...current].join(', ')}.`);
  for (const old of current)
    if (!isGreater(version, old))
      problems.push(`${version} is not greater than the current version, ${old}.`);
  if (entriesOf(state.changelog) === 0)
    problems.push('CHANGELOG.md has no entry under "## Unreleased". Describe what has changed.');
  return [...problems, ...clientProblems(client, state)];
}

function clientProblems(client, { manifests, clientChanged, lastTag }) {
  const old = manifests.find(({ name }) => name === clientName)?.version;
  if (client === undefined)
    return clientChanged
      ? [`${clientName} has changed since ${lastTag}. Give its new version: --client <version> (now ${old}).`]
      : [];
  if (!isGreater(client, old)) return [`${client} is not greater than the version of ${clientName}, ${old}.`];
  if (client.split('.')[0] !== old.split('.')[0])
    return [`${clientName} stays ${old.split('.')[0]}.x: ${client} would announce a breaking change.`];
  return [];
}

const isProduct = ({ name }) => name !== clientName;

/** The version of each published package after the release, by its name. */
export function versionsAfter({ version, client }, manifests) {
  return Object.fromEntries(
    manifests.map((manifest) => [
      manifest.name,
      isProduct(manifest) ? version : (client ?? manifest.version),
    ]),
  );
}

/** A package.json with its new version, and those of the Rowhouse packages that it depends on. */
export function editManifest(text, versions) {
  return asJson(withVersions(JSON.parse(text), versions));
}

/** package-lock.json repeats what the manifests say. */
export function editLock(text, versions) {
  const lock = JSON.parse(text);
  for (const [folder, entry] of Object.entries(lock.packages))
    if (folder.startsWith('packages/')) lock.packages[folder] = withVersions(entry, versions);
  return asJson(lock);
}

function withVersions(manifest, versions) {
  const edited = { ...manifest };
  if (versions[manifest.name]) edited.version = versions[manifest.name];
  if (manifest.dependencies)
    edited.dependencies = Object.fromEntries(
      Object.entries(manifest.dependencies).map(([name, version]) => [name, versions[name] ?? version]),
    );
  return edited;
}

const asJson = (value) => `${JSON.stringify(value, null, 2)}\n`;

/** The section "Unreleased" gets the version and the date; a new, empty one takes its place. */
export function editChangelog(text, { version, date, client }) {
  const heading = `## Unreleased\n\n## ${version} (${date})\n\nWith \`${clientName}\` ${client}.\n`;
  return text.replace(/^## Unreleased\n/m, () => heading);
}

/** How many list items the section "Unreleased" has. */
export function entriesOf(changelog) {
  const [, section = ''] = /^## Unreleased\n([\s\S]*?)(?=^## |$(?![\s\S]))/m.exec(changelog) ?? [];
  return section.match(/^- \S/gm)?.length ?? 0;
}

/** The README shows what a start prints. */
export function editReadme(text, from, to) {
  return text.replaceAll(`Rowhouse ${from} on PostgreSQL`, `Rowhouse ${to} on PostgreSQL`);
}
