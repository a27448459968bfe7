/** For password managers: whose password a form asks for. */
export function HiddenUsername({ email }: { email: string }) {
  return (
    <input type="text" hidden readOnly autoComplete="username" value={email} aria-label="Email address" />
  );
}
