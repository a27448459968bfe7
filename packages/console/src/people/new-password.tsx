// Two fields for a new password. The service has the rules; the page only checks that both are the same.
import { Field } from '../ui/field.tsx';

export type NewPassword = { first: string; second: string };
export const noPassword: NewPassword = { first: '', second: '' };
export const isComplete = ({ first, second }: NewPassword) => first !== '' && first === second;

type Props = {
  value: NewPassword;
  onChange: (value: NewPassword) => void;
  label?: string;
  autoFocus?: boolean;
};

export function NewPasswordFields({ value, onChange, label = 'New password', autoFocus = false }: Props) {
  const { first, second } = value;
  const field = { type: 'password', required: true, autoComplete: 'new-password', maxLength: 4096 } as const;
  return (
    <>
      <Field
        {...field}
        label={label}
        value={first}
        onChange={(text) => onChange({ first: text, second })}
        autoFocus={autoFocus}
        help="At least 8 characters. Common passwords are refused."
      />
      <Field
        {...field}
        label="The same again"
        value={second}
        onChange={(text) => onChange({ first, second: text })}
        error={second !== '' && !first.startsWith(second) ? 'The passwords differ.' : null}
      />
    </>
  );
}
