// A visit by a person who uses the keyboard only, in a real browser: no element is clicked, and none is focused by a script.
import type { Locator, Page } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { inBrowsers } from './browser.ts';
import { useConsoleService, useVisit } from './visit.ts';

const rowhouse = useConsoleService();
const tabsMax = 120;

inBrowsers('the keyboard alone', (name) => {
  const slug = `keyboard-${name}`;
  const visit = useVisit(name, rowhouse, slug);
  const { button, cell, dialog, editor, query } = visit;
  let page: Page;
  const press = async (...keys: string[]) => {
    for (const key of keys) await page.keyboard.press(key);
  };
  const type = (text: string) => page.keyboard.type(text);
  const isFocused = (target: Locator) => target.evaluate((element) => element.matches(':focus'));
  /** By Tab, as a person does it. */
  const tabTo = async (target: Locator, key = 'Tab') => {
    await target.waitFor();
    for (let count = 0; count < tabsMax && !(await isFocused(target)); count += 1) await press(key);
    expect(await isFocused(target), `${target} can be reached by ${key}`).toBe(true);
  };
  const expectFocus = (target: Locator) => expect.poll(() => isFocused(target)).toBe(true);
  const choose = async (target: Locator) => {
    await tabTo(target);
    await press('Enter');
  };
  const find = async (words: string, option: RegExp) => {
    await press('Control+k');
    await expectFocus(dialog('Commands').getByRole('combobox'));
    await type(words);
    await page.getByRole('option', { name: option, selected: true }).waitFor();
    await press('Enter');
  };

  beforeAll(async () => {
    page = visit.page;
    await page.addInitScript(() => {
      // The name of a window outlives its pages.
      const note = (event: Event) => {
        window.name += `${event.type} `;
      };
      for (const kind of ['pointerdown', 'mousedown', 'touchstart', 'wheel'])
        addEventListener(kind, note, true);
    });
    await page.goto(`${rowhouse.origin}/console/`);
  });

  it('signs in', async () => {
    await expectFocus(page.getByLabel('Email address'));
    await choose(button('Use an API key'));
    await expectFocus(page.getByLabel('API key'));
    await type(rowhouse.accountKey);
    await press('Enter');
    await page.getByRole('heading', { name: 'Projects' }).waitFor();
  });

  it('creates a project and a table', async () => {
    await choose(button('New project').first());
    await expectFocus(dialog('New project').getByLabel('Name'));
    await type(slug);
    await press('Enter');
    await choose(button('Open the project'));
    await choose(button('New table').first());
    await expectFocus(dialog('New table').getByLabel('Name', { exact: true }));
    await type('teas');
    await choose(button('Create table'));
    await page.getByText('No rows yet').waitFor();
  });

  it('inserts a row, edits it, undoes, reviews and applies', async () => {
    await choose(button('Insert row'));
    await page.getByText('1 unsaved change', { exact: true }).waitFor();
    await tabTo(page.getByRole('grid'));
    await press('Control+Home', 'ArrowRight');
    await type('Sencha');
    await press('Enter');
    await cell('Sencha').waitFor();
    await press('ArrowUp', 'F2', 'Control+a');
    await type('Assam');
    await press('Enter');
    await cell('Assam').waitFor();
    await press('Control+z');
    await cell('Sencha').waitFor();
    await press('Control+s');
    await dialog('Review the changes').waitFor();
    await choose(button('Apply 1 change'));
    await page.getByText('1 change applied.').waitFor();
    expect(await query('select name from teas')).toEqual([{ name: 'Sencha' }]);
  });

  it('filters', async () => {
    // Backwards from the grid: behind the last element, Firefox goes on in its own window.
    await tabTo(button('Filter'), 'Shift+Tab');
    await press('Enter');
    await expectFocus(page.getByLabel('Column', { exact: true }));
    await type('name');
    await tabTo(page.getByLabel('Value', { exact: true }));
    await type('Nothing like it');
    await press('Enter');
    await page.getByText('No row matches the filters').waitFor();
    await page.reload();
    await page.getByText('No row matches the filters').waitFor();
  });

  it('opens the SQL screen by the palette, runs a statement, and leaves the editor', async () => {
    await find('sql', /^SQL/);
    await expectFocus(editor());
    await type('select 40 + 2 as answer');
    await press('Control+Enter');
    await cell('42').waitFor();
    // In the editor, Tab indents. After Esc it leaves.
    await press('Escape', 'Tab');
    await expect.poll(() => isFocused(editor())).toBe(false);
    await tabTo(page.getByRole('grid', { name: 'Result' }));
  });

  it('uses a menu by arrows, closes it by Esc, and has the focus back', async () => {
    await find('usage', /^Usage/);
    await page.getByRole('heading', { name: 'Usage' }).waitFor();
    await tabTo(button('default'));
    await press('Enter');
    await expectFocus(page.getByRole('menuitemcheckbox').first());
    await press('ArrowDown', 'End');
    await expectFocus(page.getByRole('menuitem', { name: 'Sign out' }));
    await press('Escape');
    await expectFocus(button('default'));
  });

  it('invites a member, withdraws the invitation, and filters the audit log', async () => {
    await find('members', /^Members/);
    await choose(button('Invite'));
    await expectFocus(dialog('Invite a member').getByLabel('Email address'));
    await type(`ada-${name}@example.com`);
    await press('Enter');
    await choose(button('Done'));
    await choose(button(`Withdraw the invitation of ada-${name}@example.com`));
    await page.getByText('is withdrawn.').waitFor();
    await find('audit', /^Audit log/);
    await tabTo(page.getByLabel('Action'));
    await type('member.uninvite');
    await press('Enter');
    await page
      .getByRole('row', { name: /member\.uninvite/ })
      .first()
      .waitFor();
    await find(slug, new RegExp(`^${slug}`));
  });

  it('deletes the project after a question, and signs out', async () => {
    await find('settings', /^Settings/);
    await choose(button('Delete project'));
    await type(slug);
    await choose(dialog().getByRole('button', { name: 'Delete project' }));
    await page.getByText(/It can be restored for 7 days/).waitFor();
    await find('sign out', /^Sign out/);
    // The text of the SQL screen may not have been stored before the project was deleted.
    const [signIn, discard] = [
      page.getByRole('heading', { name: 'Sign in to Rowhouse' }),
      dialog().getByRole('button', { name: /discard/i }),
    ];
    await signIn.or(discard).first().waitFor();
    if (await discard.isVisible()) await choose(discard);
    await signIn.waitFor();
  });

  it('needed no pointer, and broke no security policy', async () => {
    expect(await page.evaluate(() => window.name)).toBe('');
    // The counter does count.
    await page.getByLabel('API key').click();
    expect(await page.evaluate(() => window.name)).toContain('mousedown');
    expect(visit.problems).toEqual([]);
  });
});
