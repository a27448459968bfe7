// Connections that have more to read than fits into one read take turns, one in each turn of the event loop: whoever
// waits for something small is never behind more than one of them.

const waiting: (() => void)[] = [];

export function nextTurn(go: () => void): void {
  if (waiting.push(go) === 1) setImmediate(takeTurn);
}

function takeTurn(): void {
  waiting.shift()?.();
  if (waiting.length > 0) setImmediate(takeTurn);
}
