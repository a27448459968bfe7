import type { Params } from '../drafts/drafts.ts';
import { CheckField, Field } from '../ui/field.tsx';

type Props = { names: readonly string[]; params: Params; onChange: (params: Params) => void };

/** A value for each parameter of the text. NULL and the empty text are told apart. */
export function ParamsForm({ names, params, onChange }: Props) {
  return (
    <fieldset className="sql-params">
      <legend className="visually-hidden">Parameters</legend>
      {names.map((name) => {
        const value = params[name] ?? null;
        return (
          <div key={name} className="sql-param">
            <Field
              label={`$${name}`}
              value={value ?? ''}
              placeholder={value === null ? 'NULL' : 'empty text'}
              onChange={(text) => onChange({ ...params, [name]: text })}
              mono
            />
            <CheckField
              label="NULL"
              checked={value === null}
              onChange={(isNull) => onChange({ ...params, [name]: isNull ? null : '' })}
            />
          </div>
        );
      })}
    </fieldset>
  );
}
