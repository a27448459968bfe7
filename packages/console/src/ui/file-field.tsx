import { type ReactNode, useId } from 'react';

type Props = {
  label: string;
  accept: string;
  file: File | null;
  onChange: (file: File | null) => void;
  help?: ReactNode;
};

export function FileField({ label, accept, file, onChange, help }: Props) {
  const id = useId();
  return (
    <div className="field">
      <label className="field-label" htmlFor={id}>
        {label}
      </label>
      <input
        id={id}
        type="file"
        className="input input-file"
        accept={accept}
        aria-describedby={help ? `${id}-note` : undefined}
        onChange={(event) => onChange(event.target.files?.[0] ?? null)}
      />
      {help ? (
        <p id={`${id}-note`} className="field-help">
          {help}
        </p>
      ) : null}
      {file ? <span className="visually-hidden">{file.name} is chosen</span> : null}
    </div>
  );
}
