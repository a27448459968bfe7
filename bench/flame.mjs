// Draws flame graphs from samples of perf. A function stands above its caller, and its width is its share of the samples.
import { escaped, round, svg, text } from './plot.mjs';

/**
 * A tree of { name, count, children }, from the output of `perf script -F comm,ip,sym`. The first row has the commands, or what
 * `nameOf` returns for them; null leaves a command out.
 */
export function foldStacks(script, nameOf = (command) => command) {
  const root = { name: 'all', count: 0, children: new Map() };
  for (const sample of script.split('\n\n')) {
    const [head, ...frames] = sample.split('\n').filter((line) => line.trim());
    const command = head && nameOf(head.trim());
    if (!command) continue;
    let node = root;
    node.count++;
    // perf prints the innermost function first.
    for (const name of [command, ...frames.map(functionOf).reverse()]) {
      if (!node.children.has(name)) node.children.set(name, { name, count: 0, children: new Map() });
      node = node.children.get(name);
      node.count++;
    }
  }
  return root;
}

/** Without its address. */
function functionOf(line) {
  return cleanName(line.trim().replace(/^[0-9a-f]+ /, ''));
}

/** Without parameters, offset, and the folder of the installation. V8 marks its functions with JS and how they are compiled. */
export function cleanName(symbol) {
  return (
    symbol
      .replace(/^JS:[*^~+]? ?/, '')
      .replace(/(file:\/\/)?\/\S*\/(packages|node_modules)\//, '')
      .replaceAll('(anonymous namespace)::', '')
      .replace(/\+0x[0-9a-f]+.*$/, '')
      .replace(/\(.*/s, '')
      .trim() || '[unknown]'
  );
}

const [width, rowHeight, top] = [1200, 17, 40];
/** In pixels. Narrower ones are left out. */
const narrowest = 0.7;
const letter = 6.2;

export function drawFlame(title, root) {
  const parts = [];
  let deepest = 0;
  const draw = (node, x, depth) => {
    deepest = Math.max(deepest, depth);
    let at = x;
    const byName = [...node.children.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
    for (const child of byName) {
      const wide = (child.count / root.count) * width;
      if (wide >= narrowest) {
        parts.push({ x: at, wide, depth, name: child.name, part: child.count / root.count });
        draw(child, at, depth + 1);
      }
      at += wide;
    }
  };
  draw(root, 0, 0);
  const height = top + deepest * rowHeight + 8;
  const shapes = parts.map(({ x, wide, depth, name, part }) => {
    const y = height - 8 - (depth + 1) * rowHeight;
    const label =
      wide > 4 * letter
        ? text(x + 3, y + 12, name.slice(0, wide / letter - 1), { size: 11, colour: '#1f2328' })
        : '';
    const tip = `<title>${escaped(name)}, ${(part * 100).toFixed(1)} %</title>`;
    const box = `<rect x="${round(x)}" y="${y}" width="${round(wide)}" height="${rowHeight - 1}" fill="${colourOf(name)}"/>`;
    return `<g>${tip}${box}${label}</g>`;
  });
  return svg(width, height, title, [text(4, 22, title, { size: 15, weight: 600 }), ...shapes]);
}

/** The same for the same function in each graph. */
function colourOf(name) {
  let hash = 0;
  for (const character of name) hash = (hash * 31 + character.codePointAt(0)) % 997;
  return `hsl(${10 + (hash % 45)} 85% ${62 + (hash % 12)}%)`;
}
