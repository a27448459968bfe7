// rowhouse link and unlink: the project that commands in a folder and below it mean.
import type { ProjectResponse } from '@rowhouse/api';
import type { Command } from 'commander';
import { type ApiOptions, callApi, withApiOptions } from '../api.ts';
import { changeConfig } from '../config-file.ts';
import { failure } from '../failure.ts';
import { type OutputOptions, show } from '../output.ts';
import { thisFolder } from '../profiles.ts';
import { clean } from '../table.ts';

export function addLink(program: Command): void {
  withApiOptions(
    program
      .command('link')
      .summary('link this folder to a project')
      .description(
        'Link this folder to a project: commands here and in folders below need no project any more. With --profile, they ' +
          'use that profile. The link is stored in your configuration, not in the folder.',
      )
      .argument('<project>', 'slug of the project'),
  ).action(link);
  program
    .command('unlink')
    .summary('remove the link of this folder')
    .description('Remove the link of this folder.')
    .option('--json', 'print the result as JSON')
    .action(unlink);
}

async function link(slug: string, options: ApiOptions & { profile?: string }): Promise<void> {
  const { project } = await callApi<ProjectResponse>(options, 'GET', ['projects', slug]);
  const { profile } = options;
  const folder = thisFolder();
  changeConfig(({ links }) => {
    links[folder] = { project: project.slug, ...(profile && { profile }) };
  });
  show(options, { ok: true, folder, project: project.slug, ...(profile && { profile }) }, () =>
    clean(`${folder} is linked to ${project.slug}. Try: rowhouse sql "select 1"`),
  );
}

function unlink(options: OutputOptions): void {
  const folder = thisFolder();
  changeConfig(({ links }) => {
    if (!links[folder])
      throw failure('not_linked', `${folder} is not linked.`, 'To link it: rowhouse link <project>');
    delete links[folder];
  });
  show(options, { ok: true, folder }, () => clean(`${folder} is not linked any more.`));
}
