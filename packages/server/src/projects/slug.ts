// Slugs: made from a name in any script, or a random word where nothing of it can be spelled.
import { randomInt } from 'node:crypto';
import { slugPattern } from '@rowhouse/api';
import anyAscii from 'any-ascii';

const longest = 48;
const suffixLength = 5;
const form = new RegExp(slugPattern);

export function isSlug(text: string): boolean {
  return form.test(text);
}

/** `my-shop` for the first attempt, `my-shop-x7k2q` for further ones. */
export function slugFromName(name: string, attempt: number): string {
  const base = spell(name);
  if (attempt === 0 && base.length >= 3) return base;
  const room = longest - suffixLength - 1;
  const start = base === '' ? randomWord() : base.slice(0, room).replace(/-+$/, '');
  return `${start}-${randomSuffix()}`;
}

function spell(name: string): string {
  return anyAscii(name.normalize('NFKC'))
    .toLowerCase()
    .replace(/['’]/g, '')
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, longest)
    .replace(/^-+|-+$/g, '');
}

function randomSuffix(): string {
  const letters = 'abcdefghjkmnpqrstvwxyz23456789';
  return Array.from({ length: suffixLength }, () => letters[randomInt(letters.length)]).join('');
}

function randomWord(): string {
  const words = [
    'attic',
    'balcony',
    'brick',
    'cellar',
    'chimney',
    'corner',
    'garden',
    'gate',
    'hearth',
    'lantern',
  ];
  return words[randomInt(words.length)] ?? 'house';
}
