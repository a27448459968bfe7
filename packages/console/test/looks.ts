// How a dialog or a part of a screen looks that only a person's actions open: in both themes and at two widths, axe finds
// nothing, and nothing is wider than the page. With ROWHOUSE_SCREENSHOTS, pictures are written into that folder.
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { type BrowserName, expectAccessible } from './browser.ts';

const pictures = process.env.ROWHOUSE_SCREENSHOTS;

export async function expectLooks(page: Page, browser: BrowserName, name: string): Promise<void> {
  const before = page.viewportSize();
  for (const [width, height, colorScheme] of [
    [1440, 900, 'light'],
    [1440, 900, 'dark'],
    [390, 844, 'light'],
    [390, 844, 'dark'],
  ] as const) {
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    // The elements are the same in every browser, and axe takes a second.
    if (browser === 'chromium') await expectAccessible(page);
    expect(await page.evaluate(overflowing), `${name} at ${width} px`).toEqual([]);
    if (pictures && browser === 'chromium') {
      mkdirSync(pictures, { recursive: true });
      await page.screenshot({ path: path.join(pictures, `${name}-${width}-${colorScheme}.png`) });
    }
  }
  await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
  if (before) await page.setViewportSize(before);
}

/** The page and its open dialogs, as far as they scroll sideways. */
function overflowing(): string[] {
  return [document.documentElement, ...document.querySelectorAll('dialog[open] .dialog-content')]
    .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)
    .map(
      (element) => `${element.className || element.tagName}: ${element.scrollWidth - element.clientWidth} px`,
    );
}
