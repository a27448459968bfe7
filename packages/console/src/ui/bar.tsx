// A value against its limit.
type Props = {
  value: number;
  max: number;
  label: string;
  /** Only against a limit is a full bar a warning. */
  kind?: 'limit' | 'share' | 'progress';
};

export function Bar({ value, max, label, kind = 'limit' }: Props) {
  const share = max > 0 ? Math.min(1, value / max) : 0;
  const level = kind !== 'limit' ? 'good' : share >= 0.95 ? 'bad' : share >= 0.8 ? 'warn' : 'good';
  return (
    // biome-ignore lint/a11y/useAriaPropsSupportedByRole: both roles have a name; the rule cannot see which one it is.
    <div
      className="bar"
      role={kind === 'progress' ? 'progressbar' : 'meter'}
      aria-label={label}
      aria-valuenow={Math.round(value * 10) / 10}
      aria-valuemin={0}
      aria-valuemax={max}
    >
      <div
        className={`bar-fill bar-${level}`}
        style={{ width: `${Math.max(share * 100, value > 0 ? 1.5 : 0)}%` }}
      />
    </div>
  );
}
