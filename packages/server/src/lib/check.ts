// One line of what `rowhouse doctor` says.
export type Check = { check: string; state: 'ok' | 'warning' | 'problem'; found: string; todo?: string };

export const ok = (check: string, found: string): Check => ({ check, state: 'ok', found });

export function warning(check: string, found: string, todo: string): Check {
  return { check, state: 'warning', found, todo };
}

export function problem(check: string, found: string, todo: string): Check {
  return { check, state: 'problem', found, todo };
}
