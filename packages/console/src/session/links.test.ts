import { expect, it } from 'vitest';
import { linkIn } from './links.ts';

it('finds the code of a link behind the #, and nothing else', () => {
  expect(linkIn('#invitation=rh_invite_a')).toEqual({ kind: 'invitation', code: 'rh_invite_a' });
  expect(linkIn('#link=a')).toEqual({ kind: 'link', code: 'a' });
  for (const hash of ['', '#', '#main', '#other=a', '#invitation=']) expect(linkIn(hash)).toBeNull();
});
