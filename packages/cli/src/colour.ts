// Colours, only on a terminal, and as NO_COLOR (no-color.org), FORCE_COLOR and TERM=dumb ask.

const styles = { bold: [1, 22], dim: [2, 22], red: [31, 39], green: [32, 39], yellow: [33, 39] } as const;

export function paint(stream: { isTTY?: boolean }, style: keyof typeof styles, text: string): string {
  const [on, off] = styles[style];
  return isColoured(stream) ? `\x1b[${on}m${text}\x1b[${off}m` : text;
}

function isColoured({ isTTY }: { isTTY?: boolean }): boolean {
  const { NO_COLOR, FORCE_COLOR, TERM } = process.env;
  if (NO_COLOR) return false;
  if (FORCE_COLOR) return FORCE_COLOR !== '0';
  return isTTY === true && TERM !== 'dumb';
}
