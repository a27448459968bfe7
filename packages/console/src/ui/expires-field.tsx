// When something expires, in the time zone of the browser.
import { Field } from './field.tsx';

export function ExpiresField({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  return (
    <Field label="Expires" type="datetime-local" value={value} onChange={onChange} help="Empty: never." />
  );
}

/** The part of a request's body that says it. */
export function expiresToBody(value: string): { expires_at?: string } {
  return value ? { expires_at: new Date(value).toISOString() } : {};
}
