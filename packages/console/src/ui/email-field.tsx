import { Field } from './field.tsx';

type Props = Omit<Parameters<typeof Field>[0], 'label' | 'type' | 'maxLength'> & { label?: string };

export function EmailField({ label = 'Email address', required = true, ...rest }: Props) {
  return <Field label={label} type="email" maxLength={508} required={required} {...rest} />;
}
