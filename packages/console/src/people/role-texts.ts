// What a role may do, in one sentence.
import type { Role } from '@rowhouse/api';

export const roleTexts: Record<Role, string> = {
  viewer: 'Viewers read projects and change nothing.',
  developer: 'Developers read and write, and manage projects and their keys.',
  admin: 'Admins also manage members and account keys, and read the audit log.',
  owner: 'Owners may do everything, and make others owners.',
};
