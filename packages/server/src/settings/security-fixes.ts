// Which security fixes the running PostgreSQL and Node.js lack, as far as this release knows: it asks nobody on the network.
// Add a row when PostgreSQL publishes a security release (https://www.postgresql.org/support/security/).

type Release = {
  date: string;
  /** A hole that a project could use, or the worst. */
  example: string;
  /** One for each major version, which later ones include. */
  versions: readonly string[];
};

/** Newest first. */
const postgresReleases: readonly Release[] = [
  {
    date: '2026-11-12',
    example:
      'CVE-2026-6460, by which whoever can create tables can run code as the account that PostgreSQL runs as',
    versions: ['18.7', '17.12', '16.16'],
  },
  {
    date: '2026-08-13',
    example: 'CVE-2026-14662, by which an ordinary user can write out of bounds',
    versions: ['18.6', '17.11', '16.15'],
  },
  {
    date: '2026-05-14',
    example: 'CVE-2026-6473, by which an ordinary user can write out of bounds',
    versions: ['18.4', '17.10', '16.14'],
  },
  {
    date: '2026-02-12',
    example: 'CVE-2026-2005 in pgcrypto',
    versions: ['18.2', '17.8', '16.12'],
  },
];

/** When the last security fixes for a major version of Node.js come. */
const nodeEnds: Readonly<Record<number, string>> = { 20: '2026-04-30', 22: '2027-04-30', 24: '2028-04-30' };

/** `found`: what is wrong, as a sentence without its end. */
export type Lacking = { found: string; newest: string; releases: number };

/** null: nothing is known to be missing, or the major version is newer than this release. */
export function lackedByPostgres(version: string): Lacking | null {
  const [major, minor] = partsOf(version);
  const missed = postgresReleases.flatMap((release) => {
    const fixed = release.versions.find((one) => partsOf(one)[0] === major);
    return fixed !== undefined && minor < partsOf(fixed)[1] ? [{ ...release, fixed }] : [];
  });
  const [newest] = missed;
  if (!newest) return null;
  const earlier = missed.slice(1).map(({ fixed, date }) => ` and ${fixed} (${date})`);
  const found = `PostgreSQL ${version} lacks the security fixes of ${newest.fixed} (${newest.date})${earlier.join('')}, among them the one for ${newest.example}`;
  return { found, newest: newest.fixed, releases: missed.length };
}

export function lackedByNode(version: string, now: number): Pick<Lacking, 'found'> | null {
  const [major] = partsOf(version);
  const end = nodeEnds[major];
  if (end === undefined || now < Date.parse(end)) return null;
  return { found: `Node.js ${version} has had no security fixes since ${end}` };
}

/** What an operator does about it. `isEmbedded`: the PostgreSQL that came with Rowhouse. */
export function remedyOf({ newest }: Lacking, isEmbedded: boolean): string {
  return isEmbedded
    ? `This release of Rowhouse has no newer PostgreSQL. If you do not trust all who can run SQL, move to a PostgreSQL ${newest} of your own with "rowhouse servers adopt".`
    : `Install PostgreSQL ${newest} or a later one of the same major version there, and restart it. The data stay as they are.`;
}

export const nodeRemedy = 'Install Node.js 24 or 22, and start the service with it.';

/** The last release of PostgreSQL that this version of Rowhouse knows. */
export const knownUntil = postgresReleases[0]?.date ?? '';

function partsOf(version: string): [major: number, minor: number] {
  const [, major = 'NaN', minor = 'NaN'] = /^v?(\d+)\.(\d+)/.exec(version) ?? [];
  return [Number(major), Number(minor)];
}
