// A labelled input with help and error. Every form uses it, so that all labels and messages are connected for readers.
import { type InputHTMLAttributes, type ReactNode, useEffect, useId, useRef } from 'react';

type Base = { label: string; help?: ReactNode; error?: string | null | undefined; isLabelHidden?: boolean };
type InputProps = Base &
  Omit<InputHTMLAttributes<HTMLInputElement>, 'onChange' | 'value' | 'className' | 'autoFocus'> & {
    value: string;
    onChange: (value: string) => void;
    mono?: boolean;
    autoFocus?: boolean;
    suffix?: ReactNode;
  };

export function Field({
  label,
  help,
  error,
  isLabelHidden,
  value,
  onChange,
  mono,
  autoFocus,
  suffix,
  ...rest
}: InputProps) {
  const id = useId();
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (!autoFocus) return;
    input.current?.focus();
    // A proposed text can be typed over.
    input.current?.select();
  }, [autoFocus]);
  return (
    <Labelled id={id} label={label} help={help} error={error} isLabelHidden={isLabelHidden ?? false}>
      <span className="input-wrap">
        <input
          {...rest}
          ref={input}
          id={id}
          className={mono ? 'input mono' : 'input'}
          value={value}
          onChange={(event) => onChange(event.target.value)}
          aria-invalid={error ? true : undefined}
          aria-describedby={error || help ? `${id}-note` : undefined}
          spellCheck={false}
        />
        {suffix ? <span className="input-suffix">{suffix}</span> : null}
      </span>
    </Labelled>
  );
}

type SelectProps = Base & {
  value: string;
  onChange: (value: string) => void;
  options: readonly (string | { value: string; label: string })[];
  disabled?: boolean;
};

export function SelectField({
  label,
  help,
  error,
  isLabelHidden,
  value,
  onChange,
  options,
  disabled,
}: SelectProps) {
  const id = useId();
  return (
    <Labelled id={id} label={label} help={help} error={error} isLabelHidden={isLabelHidden ?? false}>
      <select
        id={id}
        className="input select"
        value={value}
        disabled={disabled}
        onChange={(event) => onChange(event.target.value)}
        aria-describedby={error || help ? `${id}-note` : undefined}
      >
        {options.map((option) => {
          const { value: key, label: text } =
            typeof option === 'string' ? { value: option, label: option } : option;
          return (
            <option key={key} value={key}>
              {text}
            </option>
          );
        })}
      </select>
    </Labelled>
  );
}

type AreaProps = Base & {
  value: string;
  onChange: (value: string) => void;
  rows?: number;
  readOnly?: boolean;
};

export function TextField({
  label,
  help,
  error,
  isLabelHidden,
  value,
  onChange,
  rows = 4,
  readOnly,
}: AreaProps) {
  const id = useId();
  return (
    <Labelled id={id} label={label} help={help} error={error} isLabelHidden={isLabelHidden ?? false}>
      <textarea
        id={id}
        className="input textarea mono"
        rows={rows}
        readOnly={readOnly}
        value={value}
        onChange={(event) => onChange(event.target.value)}
        aria-invalid={error ? true : undefined}
        aria-describedby={error || help ? `${id}-note` : undefined}
        spellCheck={false}
      />
    </Labelled>
  );
}

export function CheckField({
  label,
  help,
  checked,
  onChange,
}: {
  label: string;
  help?: ReactNode;
  checked: boolean;
  onChange: (checked: boolean) => void;
}) {
  const id = useId();
  return (
    <div className="check">
      <input id={id} type="checkbox" checked={checked} onChange={(event) => onChange(event.target.checked)} />
      <label htmlFor={id}>
        {label}
        {help ? <span className="field-help">{help}</span> : null}
      </label>
    </div>
  );
}

function Labelled({
  id,
  label,
  help,
  error,
  isLabelHidden,
  children,
}: Base & { id: string; children: ReactNode }) {
  return (
    <div className="field">
      <label className={isLabelHidden ? 'visually-hidden' : 'field-label'} htmlFor={id}>
        {label}
      </label>
      {children}
      {error || help ? (
        <p id={`${id}-note`} className={error ? 'field-error' : 'field-help'}>
          {error ?? help}
        </p>
      ) : null}
    </div>
  );
}
