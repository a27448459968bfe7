import { Field } from '../ui/field.tsx';

type Props = { value: string; onChange: (value: string) => void; autoFocus?: boolean; label?: string };

/** The current password. */
export function PasswordField({ value, onChange, autoFocus = false, label = 'Your password' }: Props) {
  return (
    <Field
      label={label}
      type="password"
      value={value}
      onChange={onChange}
      autoFocus={autoFocus}
      required
      autoComplete="current-password"
      maxLength={4096}
    />
  );
}
