// What a setting is, and how its flag, its values and its default are written.

type Described = {
  /** One or more sentences. */
  description: string;
  /** Never shown in an error message. The documentation advises against the flag. */
  secret?: true;
};
/** Without a default value, `unset` says what applies instead. */
type Defaulting<T> = { default: T } | { default: null; unset: string };

export type IntegerSetting = Described &
  Defaulting<number> & { type: 'integer'; min: number; max: number; unit?: 'MB' | 'ms' | 's' | 'days' };
export type BooleanSetting = Described & { type: 'boolean'; default: boolean };
export type ChoiceSetting = Described & { type: 'choice'; choices: readonly string[]; default: string };
export type TextSetting = Described &
  Defaulting<string> & {
    type: 'text';
    /** Stands for the value in the help text: `--data <folder>`. */
    placeholder: string;
    /** Completes the sentence "The value must be …". */
    format: string;
    /** The whole check, where an expression can make it. config.ts checks the others. */
    pattern?: RegExp;
    example?: string;
  };
export type Setting = IntegerSetting | BooleanSetting | ChoiceSetting | TextSetting;

/** `ROWHOUSE_LOG_TO` becomes `--log-to <choice>`. */
export function flagOf(name: string, setting: Setting): string {
  const flag = `--${name.replace('ROWHOUSE_', '').toLowerCase().replaceAll('_', '-')}`;
  switch (setting.type) {
    case 'integer':
      return `${flag} <number>`;
    case 'boolean':
      return flag;
    case 'choice':
      return `${flag} <choice>`;
    case 'text':
      return `${flag} <${setting.placeholder}>`;
  }
}

/** Completes the sentence "The value must be …". */
export function requirementOf(setting: Setting): string {
  switch (setting.type) {
    case 'integer':
      return `a whole number from ${setting.min} to ${setting.max}`;
    case 'boolean':
      return 'true, false, 1 or 0';
    case 'choice':
      return `one of ${setting.choices.join(', ')}`;
    case 'text':
      return setting.example ? `${setting.format}, such as ${setting.example}` : setting.format;
  }
}

/** What applies without the setting, for people. */
export function defaultOf(setting: Setting): string {
  if (setting.default === null) return setting.unset;
  const unit = setting.type === 'integer' && setting.unit;
  return unit ? `${setting.default} ${unit}` : String(setting.default);
}
