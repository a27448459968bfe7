// Hints of the service name its endpoints. On the command line they name the command to type.

/** By method and path; `…` and `/projects/:slug` are the same. */
const commands: Readonly<Record<string, string>> = {
  'GET /projects': 'rowhouse projects list',
  'GET …': 'rowhouse projects show <slug>',
  'PATCH …': 'rowhouse projects limit <slug> <mb>',
  'POST …/restore': 'rowhouse projects restore <slug>',
  'POST …/compact': 'rowhouse projects compact <slug>',
  'GET …/connection': 'rowhouse projects connection <slug>',
  'GET …/export': 'rowhouse export',
  'GET …/tables': 'rowhouse tables list <slug>',
  'POST …/tables/:table': 'rowhouse import <file> --table <table>',
  'POST …/query': 'rowhouse sql',
  'POST …/batch': 'rowhouse sql --file <file>',
  'GET …/queries': 'the SQL screen of the console',
  'DELETE …/queries/:id': 'the SQL screen of the console',
  'GET …/history': 'its history',
  'GET …/keys': 'rowhouse keys list <slug>',
  'POST …/keys': 'rowhouse keys issue <slug>',
  'POST …/keys/rotate': 'rowhouse keys rotate <slug>',
  'GET …/snapshots': 'rowhouse snapshots list <slug>',
  'DELETE …/snapshots/:name': 'rowhouse snapshots delete <slug> <name>',
  'GET …/auth/user': 'rowhouse users show <slug> <email>',
  'GET …/auth/users': 'rowhouse users list <slug>',
  'PATCH …/auth/users/:id': 'rowhouse users unban <slug> <email>',
  'GET …/auth/users/:id/sessions': 'rowhouse users show <slug> <email>',
  'POST …/auth/users/:id/act-as': 'the Users screen of the console',
  'POST …/auth/signin': 'a sign-in of the user',
  'POST …/auth/refresh': 'a refresh by the application',
  'POST …/auth/recover': 'rowhouse users recover <slug> <email>',
  'GET /servers': 'rowhouse servers list',
  'GET /account/keys': 'rowhouse account keys',
  'DELETE /account/keys/:id': 'rowhouse account revoke-key <id>',
  'GET /account/members': 'rowhouse members list',
  'PATCH /account/members/:id': 'rowhouse members change <email>',
  'GET /accounts': 'rowhouse accounts list',
  'GET /accounts/:id': 'rowhouse accounts list',
  'GET /backups': 'rowhouse backup list',
  'POST /backups': 'rowhouse backup now',
  'POST /projects/import': 'rowhouse import <dump> --name <name>',
  'POST /uploads': 'rowhouse import <dump> --name <name>',
  'PATCH /uploads/:id': 'rowhouse import <dump> --name <name> --upload <id>',
  'GET /uploads': 'the log of the service',
  'GET /docs': 'rowhouse --help',
};

export function forCommandLine(hint: string): string {
  return hint
    .replace(/ with \{"kind": "full"\}/, ' --full')
    .replace(/ with \{"banned": false\}/, '')
    .replace(/(\/jobs\/([\w-]+) reports[^.]*\. )DELETE cancels/, '$1rowhouse jobs cancel $2 cancels')
    .replace(/\b(GET|POST|PATCH|PUT|DELETE) ((?:…|\/)[\w/:-]*)/g, (whole, method: string, path: string) => {
      const short = path.replace('/api/dbaas/v2', '').replace(/^\/projects\/:slug/, '…');
      const job = /^\/jobs\/([\w-]+)$/.exec(short)?.[1];
      if (short.startsWith('/console/')) return 'the console';
      if (job) return `rowhouse jobs ${method === 'DELETE' ? 'cancel' : 'show'} ${job}`;
      // Some paths of an account are written with … too.
      return commands[`${method} ${short}`] ?? commands[`${method} ${short.replace('…', '')}`] ?? whole;
    })
    .replace('--help lists all endpoints', '--help lists all commands');
}
