// Members and an invitation in the first account, for the pictures of the screens.
import { acceptAsNew } from '../../server/src/access/people/invitations.ts';
import { api, type TestService } from '../../server/test/support/helpers.ts';
import { password } from './members-of.ts';

export async function createTeam(service: TestService): Promise<void> {
  const { control, users, now } = service.service.deps;
  const invite = async (body: object): Promise<string> => {
    const { body: answer } = await service.call('POST', `${api}/account/invitations`, { body });
    return String(answer.link).split('#invitation=')[1] ?? '';
  };
  for (const [email, role] of [
    ['grace@example.com', 'owner'],
    ['linus@example.com', 'developer'],
  ]) {
    const code = await invite({ email, role });
    await acceptAsNew({ control, hashing: users.hashing, now }, code, password);
  }
  await invite({ email: 'margaret@example.com', role: 'viewer', projects: ['tea-shop'] });
}
