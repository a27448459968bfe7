import { Field } from '../ui/field.tsx';

type Props = {
  value: string;
  onChange: (value: string) => void;
  /** A recovery code does not count here. */
  onlyApp?: boolean;
  isFocused?: boolean;
};

/** A code of the second factor. */
export function CodeField({ value, onChange, onlyApp = false, isFocused = true }: Props) {
  return (
    <Field
      label="Code"
      value={value}
      onChange={onChange}
      autoFocus={isFocused}
      required
      autoComplete="one-time-code"
      inputMode={onlyApp ? 'numeric' : 'text'}
      maxLength={100}
      placeholder="123456"
      help={
        onlyApp
          ? 'The six digits that your authenticator app shows.'
          : 'The code of your authenticator app, or a recovery code.'
      }
      mono
    />
  );
}
