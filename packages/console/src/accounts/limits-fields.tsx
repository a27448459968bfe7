// What an account may use. An empty field is no limit.
import type { Account } from '@rowhouse/api';
import { Field } from '../ui/field.tsx';

const names = ['max_projects', 'max_total_mb', 'max_requests_per_second'] as const;
export type Limits = Record<(typeof names)[number], string>;

export const noLimits: Limits = { max_projects: '', max_total_mb: '', max_requests_per_second: '' };

export const limitsOf = (account: Account): Limits => ({
  max_projects: String(account.max_projects ?? ''),
  max_total_mb: String(account.max_total_mb ?? ''),
  max_requests_per_second: String(account.max_requests_per_second ?? ''),
});

export const toBody = (limits: Limits) =>
  Object.fromEntries(names.map((name) => [name, limits[name] === '' ? null : Number(limits[name])]));

type Props = { value: Limits; onChange: (value: Limits) => void };

export function LimitsFields({ value, onChange }: Props) {
  const field = (name: keyof Limits) => ({
    value: value[name],
    onChange: (text: string) => onChange({ ...value, [name]: text }),
    ...({ inputMode: 'numeric', pattern: '[0-9]+', placeholder: 'no limit' } as const),
  });
  return (
    <>
      <Field label="Projects" {...field('max_projects')} />
      <Field label="Size limits of all projects together" suffix="MB" {...field('max_total_mb')} />
      <Field label="Requests per second" {...field('max_requests_per_second')} />
    </>
  );
}
