import { CheckField, Field } from '../ui/field.tsx';
import type { Params } from './drafts.ts';

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
