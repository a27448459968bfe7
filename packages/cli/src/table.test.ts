import { describe, expect, it } from 'vitest';
import { clean, formatFields, formatJson, formatTable, widthOf } from './table.ts';

describe('formatTable', () => {
  it('aligns columns, numbers to the right, without trailing spaces', () => {
    const columns = [{ title: 'NAME' }, { title: 'MB', align: 'right' as const }, { title: 'STATUS' }];
    expect(
      formatTable(columns, [
        ['shop', 5, 'ready'],
        ['a longer one', 1024, ''],
      ]),
    ).toBe('NAME            MB  STATUS\nshop             5  ready\na longer one  1024');
  });

  it('keeps columns aligned next to wide, combined and joined characters', () => {
    const names = ['東京', 'e\u0301te\u0301', '🏠 home', '👩\u200d👩\u200d👧', 'ｱｲｳ', 'plain'];
    const lines = formatTable(
      [{ title: 'NAME' }, { title: 'X' }],
      names.map((name) => [name, '|']),
    ).split('\n');
    for (const line of lines.slice(1)) expect(widthOf(line.slice(0, line.indexOf('|')))).toBe(9);
  });

  it('cuts a long name at the width, not in the middle of a character', () => {
    const text = formatTable([{ title: 'NAME', max: 6 }], [['東京都庁']]);
    expect(text).toBe('NAME\n東京…');
  });
});

describe('untrusted text', () => {
  const hostile = 'a\u001b[2J\u009b31m\u202eb\nc\u2028d\u0007\u{e0041}';

  it('cannot move the cursor, colour, reorder or add lines', () => {
    expect(clean(hostile)).toBe('a\ufffd[2J\ufffd31m\ufffdb\ufffdc\ufffdd\ufffd\ufffd');
    expect(formatFields([['name', hostile]]).split('\n')).toHaveLength(1);
    expect(formatTable([{ title: 'NAME' }], [[hostile]]).split('\n')).toHaveLength(2);
  });

  it('keeps the joiners that scripts and emoji need', () => {
    expect(clean('می\u200cخواهم 👩\u200d👧')).toBe('می\u200cخواهم 👩\u200d👧');
  });

  it('is escaped in JSON, which keeps its value', () => {
    const json = formatJson({ name: hostile, plain: 'é 東京' });
    expect(JSON.parse(json)).toEqual({ name: hostile, plain: 'é 東京' });
    expect(json.replaceAll('\n', '')).not.toMatch(/[\p{C}\p{Zl}\p{Zp}]/u);
    expect(json).toContain('é 東京');
  });
});
