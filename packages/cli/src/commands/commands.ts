// All commands: what `rowhouse` can do, without running any of it. Each has a file beside this one.
import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { fillProjects } from '../project-argument.ts';
import { addAccount } from './account.ts';
import { addAccounts } from './accounts.ts';
import { addAudit } from './audit.ts';
import { addBackup } from './backup.ts';
import { addBranches } from './branches.ts';
import { addCompletion } from './completion.ts';
import { addDoctor } from './doctor.ts';
import { addFiles } from './import-export.ts';
import { addJobs } from './jobs.ts';
import { addKeys } from './keys.ts';
import { addLink } from './link.ts';
import { addLogin } from './login.ts';
import { addLogs } from './logs.ts';
import { addMasterKey } from './master-key.ts';
import { addMcp } from './mcp.ts';
import { addMembers } from './members.ts';
import { addMigrate } from './migrate.ts';
import { addPeople } from './people.ts';
import { addProjects } from './projects.ts';
import { addPsql } from './psql.ts';
import { addRestore } from './restore.ts';
import { addServers } from './servers.ts';
import { addService } from './service.ts';
import { addSnapshots } from './snapshots.ts';
import { addSql } from './sql.ts';
import { addStart } from './start.ts';
import { addStatus } from './status.ts';
import { addTables } from './tables.ts';
import { addTypes } from './types.ts';
import { addUsers } from './users.ts';

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

export function createProgram(): Command {
  const program = new Command('rowhouse')
    .description('Rowhouse: many real PostgreSQL projects behind one small REST API.')
    .version(version)
    .showHelpAfterError('(--help lists commands and options)')
    .exitOverride();
  addStart(program);
  addStatus(program);
  addDoctor(program);
  addLogs(program);
  addService(program);
  addMasterKey(program);
  addLogin(program);
  addLink(program);
  addProjects(program);
  addSql(program);
  addPsql(program);
  addMigrate(program);
  addTables(program);
  addFiles(program);
  addBackup(program);
  addServers(program);
  addBranches(program);
  addSnapshots(program);
  addRestore(program);
  addJobs(program);
  addKeys(program);
  addUsers(program);
  addMembers(program);
  addPeople(program);
  addAccount(program);
  addAccounts(program);
  addAudit(program);
  addTypes(program);
  addMcp(program);
  addCompletion(program);
  fillProjects(program);
  return program;
}
