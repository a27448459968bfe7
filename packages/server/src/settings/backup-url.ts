// ROWHOUSE_BACKUP_URL: a folder, or a prefix of an S3 bucket. Parsed once, at the start.
import path from 'node:path';

export type S3Location = {
  kind: 's3';
  bucket: string;
  /** Without slashes at its ends. May be empty. */
  prefix: string;
  region: string;
  /** null: Amazon. Other services are addressed by path, https://endpoint/bucket/name. */
  endpoint: string | null;
  credentials: Credentials;
};
export type FolderLocation = { kind: 'folder'; folder: string };
export type BackupLocation = FolderLocation | S3Location;
export type Credentials = { accessKeyId: string; secretAccessKey: string; sessionToken: string | null };

const bucketPattern = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;
const prefixPattern = /^[A-Za-z0-9_-][A-Za-z0-9._-]*(\/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$/;

/** null: invalid. The credentials are checked by the caller, because they are separate settings. */
export function parseBackupUrl(
  value: string,
  workingFolder: string,
): FolderLocation | Omit<S3Location, 'credentials'> | null {
  if (value.startsWith('file:')) return parseFolder(value.slice(5), workingFolder);
  // Dots in the path would be resolved, and lead elsewhere than they say.
  if (!value.startsWith('s3://') || value.includes('/.') || !URL.canParse(value)) return null;
  const url = new URL(value);
  const known = ['endpoint', 'region'];
  if (url.username || url.password || url.port || url.hash) return null;
  if ([...url.searchParams.keys()].some((name) => !known.includes(name))) return null;
  const bucket = url.hostname;
  const prefix = url.pathname.replace(/^\/|\/$/g, '');
  const region = url.searchParams.get('region') ?? 'us-east-1';
  const endpoint = url.searchParams.get('endpoint');
  if (!bucketPattern.test(bucket) || (prefix !== '' && !prefixPattern.test(prefix))) return null;
  if (!/^[a-z0-9-]{1,40}$/.test(region)) return null;
  if (endpoint !== null && !isEndpoint(endpoint)) return null;
  return { kind: 's3', bucket, prefix, region, endpoint };
}

/** `file:backups`, `file:/var/backups` and `file:///var/backups`. */
function parseFolder(given: string, workingFolder: string): FolderLocation | null {
  const folder = given.startsWith('//') ? given.slice(2) : given;
  if (folder === '' || folder.includes('\0') || (given.startsWith('//') && !path.isAbsolute(folder)))
    return null;
  return { kind: 'folder', folder: path.resolve(workingFolder, folder) };
}

function isEndpoint(value: string): boolean {
  if (!URL.canParse(value)) return false;
  const url = new URL(value);
  const isPlain = !url.username && !url.search && !url.hash && url.pathname === '/';
  return ['http:', 'https:'].includes(url.protocol) && isPlain;
}
