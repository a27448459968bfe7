// Hints of the service name its endpoints. On the command line they name the command to type.

/** What an endpoint is called here. `$1`: a part of its path. */
const commands: readonly (readonly [RegExp, string])[] = [
  [
    /GET ([^ ]*)\/jobs\/([\w-]+)( reports[^.]*\.) DELETE cancels it/g,
    'rowhouse jobs show $2$3 rowhouse jobs cancel $2 cancels it',
  ],
  [/GET [^ ]*\/jobs\/([\w-]+)/g, 'rowhouse jobs show $1'],
  [/POST (…|[^ ]*\/projects\/:slug)\/compact/g, 'rowhouse projects compact <slug>'],
  [/POST [^ ]*\/projects\/:slug\/restore/g, 'rowhouse projects restore <slug>'],
  [/PATCH [^ ]*\/projects\/:slug/g, 'rowhouse projects limit <slug> <mb>'],
  [/GET [^ ]*\/projects\/:slug\/auth\/users/g, 'rowhouse users list <slug>'],
  [/GET [^ ]*\/projects\/:slug\/keys/g, 'rowhouse keys list <slug>'],
  [/GET [^ ]*\/projects\/:slug\/tables/g, 'rowhouse tables list <slug>'],
  [/GET [^ ]*\/projects\/:slug\/connection/g, 'rowhouse projects connection <slug>'],
  [/GET [^ ]*\/projects\/:slug/g, 'rowhouse projects show <slug>'],
  [/GET [^ ]*\/projects\b/g, 'rowhouse projects list'],
  [/GET [^ ]*\/servers\b/g, 'rowhouse servers list'],
  [/GET [^ ]*\/account\/keys/g, 'rowhouse account keys'],
  [/GET [^ ]*\/account\/members/g, 'rowhouse members list'],
  [/GET [^ ]*\/accounts(\/:id)?/g, 'rowhouse accounts list'],
  [/PATCH [^ ]*\/accounts\/[\w:]+( \{[^}]*\})?/g, 'rowhouse accounts limit <id>'],
  [/POST [^ ]*\/backups with \{"kind": "full"\}/g, 'rowhouse backup now --full'],
  [/GET [^ ]*\/backups\b/g, 'rowhouse backup list'],
  [/(in parts: )?POST \/uploads/g, 'rowhouse projects import <file> --name <name>'],
  [/PATCH \/uploads\/:id/g, 'rowhouse projects import --upload <id>'],
  [/GET \/uploads lists them\. /g, ''],
  [/GET \/docs lists all endpoints/g, 'rowhouse --help lists all commands'],
];

export function forCommandLine(hint: string): string {
  return commands.reduce((text, [endpoint, command]) => text.replace(endpoint, command), hint);
}
