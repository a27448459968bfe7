import type { ReactNode } from 'react';

type Tone = 'good' | 'warn' | 'bad' | 'plain' | 'info';

export function Badge({ tone = 'plain', children }: { tone?: Tone; children: ReactNode }) {
  return <span className={`badge badge-${tone}`}>{children}</span>;
}
