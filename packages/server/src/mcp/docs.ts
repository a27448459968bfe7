// Searches the documentation, which is part of the installation: an agent finds out how to do something without the internet.
import { readFile } from 'node:fs/promises';

export type Section = Readonly<{ page: string; heading: string; text: string }>;

/** In a published package, and in a clone. */
const places = ['../../data/llms-full.txt', '../../../../llms-full.txt'];
const maxSections = 5;

let loaded: Promise<readonly Section[]> | undefined;

/** The sections that fit best, best first. */
export async function searchDocs(query: string): Promise<readonly Section[]> {
  loaded ??= load();
  const words = wordsOf(query);
  const scored = (await loaded).map((section) => ({ section, score: scoreOf(section, words) }));
  return scored
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score)
    .slice(0, maxSections)
    .map(({ section }) => section);
}

async function load(): Promise<readonly Section[]> {
  for (const place of places) {
    const text = await readFile(new URL(place, import.meta.url), 'utf8').catch(() => null);
    if (text !== null) return sectionsOf(text);
  }
  return [];
}

/** Pages begin with a line "<!-- docs/query.md -->", sections with a heading. A # inside of an example is none. */
export function sectionsOf(text: string): Section[] {
  const sections: { page: string; heading: string; lines: string[] }[] = [];
  let page = '';
  let isExample = false;
  for (const line of text.split('\n')) {
    const [, named] = /^<!-- (\S+\.md) -->$/.exec(line) ?? [];
    if (line.startsWith('```')) isExample = !isExample;
    if (named) {
      page = named;
      isExample = false;
    } else if (!isExample && /^#{1,3} /.test(line)) {
      sections.push({ page, heading: line.replace(/^#+ /, ''), lines: [] });
    } else sections.at(-1)?.lines.push(line);
  }
  return sections.map(({ lines, ...named }) => ({ ...named, text: lines.join('\n').trim() }));
}

/** A word in the heading counts more than in the text, and a rare repetition hardly more than one occurrence. */
function scoreOf({ page, heading, text }: Section, words: readonly string[]): number {
  const [inHeading, inText] = [wordsOf(`${page} ${heading}`), wordsOf(text)];
  let score = 0;
  for (const word of words) {
    const times = inText.filter((other) => other.startsWith(word)).length;
    score += (inHeading.some((other) => other.startsWith(word)) ? 4 : 0) + Math.log2(1 + times);
    if (times === 0 && !inHeading.some((other) => other.startsWith(word))) score -= 2;
  }
  // Of two sections with the same words, the shorter one is about them.
  return score - Math.log2(1 + inText.length) / 10;
}

function wordsOf(text: string): string[] {
  return text.toLowerCase().match(/[a-z0-9_]{2,}/g) ?? [];
}
