// Slugs: derived from a name in any script, or from a random word if nothing of the name can be transliterated.
import { randomInt } from 'node:crypto';
import { slugPattern } from '@rowhouse/api';
import anyAscii from 'any-ascii';

const maxLength = 48;
const suffixLength = 5;
const form = new RegExp(slugPattern);

export function isSlug(text: string): boolean {
  return form.test(text);
}

/** `my-shop` for the first attempt, `my-shop-x7k2q` for later ones. */
export function slugFromName(name: string, attempt: number): string {
  const base = transliterate(name);
  if (attempt === 0 && base.length >= 3) return base;
  const maxStart = maxLength - suffixLength - 1;
  const start = base === '' ? randomWord() : base.slice(0, maxStart).replace(/-+$/, '');
  return `${start}-${randomSuffix()}`;
}

function transliterate(name: string): string {
  return anyAscii(name.normalize('NFKC'))
    .toLowerCase()
    .replace(/['’]/g, '')
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, maxLength)
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
