// Searches the documentation, which is part of the installation: an agent finds out how to do something without the internet.
import { readFile } from 'node:fs/promises';

export type Section = Readonly<{ page: string; heading: string; text: string }>;

/** Where a word is: for each section, how often in its text, and whether in its heading. */
type Places = Map<number, { times: number; isInHeading: boolean }>;
type Index = Readonly<{
  sections: readonly Section[];
  lengths: readonly number[];
  words: Map<string, Places>;
}>;

/** Written when the service is installed or packed, by scripts/llms-full.mjs. */
const allPages = new URL('../../data/llms-full.txt', import.meta.url);
const maxSections = 5;
/** The rest of a query is ignored: a search holds up other requests. */
const maxWords = 12;

let loaded: Promise<Index> | undefined;

/** The sections that fit best, best first. */
export async function searchDocs(query: string): Promise<readonly Section[]> {
  loaded ??= load();
  return search(await loaded, query);
}

/** A word in the heading counts more than in the text, and a rare repetition hardly more than one occurrence. */
export function search({ sections, lengths, words }: Index, query: string): readonly Section[] {
  const wanted = [...new Set(wordsOf(query))].slice(0, maxWords);
  // If two sections have the same words, the shorter one is about them.
  const scores = lengths.map((length) => -2 * wanted.length - Math.log2(1 + length) / 10);
  for (const beginning of wanted) {
    for (const [at, { times, isInHeading }] of placesOf(words, beginning))
      scores[at] = (scores[at] ?? 0) + 2 + (isInHeading ? 4 : 0) + Math.log2(1 + times);
  }
  return sections
    .map((section, at) => ({ section, score: scores[at] ?? 0 }))
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score)
    .slice(0, maxSections)
    .map(({ section }) => section);
}

/** The places of all words that begin like this one. */
function placesOf(words: Index['words'], beginning: string): Places {
  const all: Places = new Map();
  for (const [word, found] of words) {
    if (!word.startsWith(beginning)) continue;
    for (const [at, { times, isInHeading }] of found) {
      const place = placeIn(all, at);
      place.times += times;
      place.isInHeading ||= isInHeading;
    }
  }
  return all;
}

async function load(): Promise<Index> {
  return indexOf(sectionsOf(await readFile(allPages, 'utf8').catch(() => '')));
}

/** Once: reading the words of all pages takes longer than a search. */
export function indexOf(sections: readonly Section[]): Index {
  const words: Index['words'] = new Map();
  const placeOf = (word: string, at: number) => {
    const found = words.get(word) ?? new Map();
    words.set(word, found);
    return placeIn(found, at);
  };
  const lengths = sections.map(({ page, heading, text }, at) => {
    const inText = wordsOf(text);
    for (const word of inText) placeOf(word, at).times++;
    for (const word of wordsOf(`${page} ${heading}`)) placeOf(word, at).isInHeading = true;
    return inText.length;
  });
  return { sections, lengths, words };
}

function placeIn(found: Places, at: number): { times: number; isInHeading: boolean } {
  const place = found.get(at) ?? { times: 0, isInHeading: false };
  found.set(at, place);
  return place;
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

function wordsOf(text: string): string[] {
  return text.toLowerCase().match(/[a-z0-9_]{2,}/g) ?? [];
}
