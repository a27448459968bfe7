// The `rowhouse` command: registers the subcommands, and turns a failure into a message and an exit status.
import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { addAccounts } from './accounts.ts';
import { addAudit } from './audit.ts';
import { addBackup } from './backup.ts';
import { addBranches } from './branches.ts';
import { addDoctor } from './doctor.ts';
import { addJobs } from './jobs.ts';
import { addKeys } from './keys.ts';
import { addMasterKey } from './master-key.ts';
import { addMembers } from './members.ts';
import { showFailure } from './output.ts';
import { addPeople } from './people.ts';
import { addProjects } from './projects.ts';
import { addRestore } from './restore-all.ts';
import { addServers } from './servers.ts';
import { addSnapshots } from './snapshots.ts';
import { addStart } from './start.ts';
import { addStatus } from './status.ts';
import { addTypes } from './types.ts';
import { addUsers } from './users.ts';

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

const program = new Command('rowhouse')
  .description('Rowhouse: many real PostgreSQL projects behind one small REST API.')
  .version(version)
  .showHelpAfterError('(--help lists commands and options)');
addStart(program);
addStatus(program);
addDoctor(program);
addMasterKey(program);
addProjects(program);
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
addAccounts(program);
addAudit(program);
addTypes(program);

let json = false;
program.hook('preAction', (_program, command) => {
  json = command.opts().json === true;
});

// The reader may close the pipe early: `rowhouse projects list | head -1`.
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1));

try {
  await program.parseAsync();
} catch (error) {
  showFailure({ json }, error);
  process.exitCode = 1;
}
