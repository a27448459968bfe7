// The words of one statement: names, keywords and quoted names, with their places. Strings, numbers and comments are passed
// over. Enough to find the role in a GRANT; PostgreSQL itself reads the statement.

export type Word = Readonly<{
  /** Lower case as PostgreSQL does, or what is between the quotes. */
  word: string;
  isQuoted: boolean;
  start: number;
  end: number;
  /** How many parentheses are open around it. */
  depth: number;
}>;

/** No part can match the same text in two ways: a hostile statement must not take longer than its length. */
const token =
  /"([^"]*(?:""[^"]*)*)"|([A-Za-z_\u0080-\u{10FFFF}][\w$\u0080-\u{10FFFF}]*)|'[^']*(?:''[^']*)*'|--[^\n]*|(\$(?:[A-Za-z_\u0080-\u{10FFFF}][\w\u0080-\u{10FFFF}]*)?\$)|\/\*|([()])|[\s\S]/uy;

/** At most those in the first `maxChars` characters. */
export function findWords(statement: string, maxChars: number): Word[] {
  const text = statement.length > maxChars ? statement.slice(0, maxChars) : statement;
  const words: Word[] = [];
  let depth = 0;
  token.lastIndex = 0;
  for (let match = token.exec(text); match; match = token.exec(text)) {
    const [all, quoted, plain, dollar, paren] = match;
    const start = match.index;
    const end = start + all.length;
    if (quoted !== undefined) {
      words.push({ word: quoted.replaceAll('""', '"'), isQuoted: true, start, end, depth });
    } else if (plain !== undefined) {
      const isEscapeString = /^e$/i.test(plain) && text[end] === "'";
      if (isEscapeString) token.lastIndex = endOfEscaped(text, end);
      else words.push({ word: lower(plain), isQuoted: false, start, end, depth });
    } else if (dollar !== undefined) {
      const close = text.indexOf(dollar, end);
      token.lastIndex = close === -1 ? text.length : close + dollar.length;
    } else if (all === '/*') {
      token.lastIndex = endOfBlock(text, end);
    } else if (paren) {
      depth = paren === '(' ? depth + 1 : Math.max(0, depth - 1);
    }
    if (token.lastIndex >= text.length) break;
  }
  token.lastIndex = 0;
  return words;
}

/** PostgreSQL folds ASCII letters only in UTF-8. */
function lower(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

function endOfEscaped(text: string, quote: number): number {
  for (let at = quote + 1; at < text.length; at++) {
    if (text[at] === '\\') at++;
    else if (text[at] === "'" && text[at + 1] === "'") at++;
    else if (text[at] === "'") return at + 1;
  }
  return text.length;
}

function endOfBlock(text: string, start: number): number {
  let depth = 1;
  for (let at = start; at < text.length; at++) {
    if (text.startsWith('*/', at)) {
      at++;
      if (--depth === 0) return at + 1;
    } else if (text.startsWith('/*', at)) {
      at++;
      depth++;
    }
  }
  return text.length;
}
