// The editor inside a cell. Enter and Tab keep the text, Esc drops it. Alt and Enter writes a line break.
import { type KeyboardEvent, useEffect, useId, useRef, useState } from 'react';
import type { GridColumn } from './source.ts';

type Props = {
  column: GridColumn;
  initial: string;
  /** `key`: where to go afterwards. Returns the problem if the text does not fit. */
  onCommit: (text: string, key: { key: string; shift: boolean } | null) => string | null;
  onCancel: () => void;
};

export function CellEditor({ column, initial, onCommit, onCancel }: Props) {
  const [text, setText] = useState(initial);
  const [problem, setProblem] = useState<string | null>(null);
  const input = useRef<HTMLTextAreaElement>(null);
  const isDone = useRef(false);
  const noteId = useId();
  useEffect(() => {
    const element = input.current;
    element?.focus();
    element?.setSelectionRange(element.value.length, element.value.length);
  }, []);
  const commit = (key: { key: string; shift: boolean } | null) => {
    if (isDone.current) return;
    isDone.current = true;
    const found = text === initial && key === null ? null : onCommit(text, key);
    if (text === initial && key === null) onCancel();
    setProblem(found);
    isDone.current = found === null;
  };
  const onKeyDown = (event: KeyboardEvent) => {
    event.stopPropagation();
    if (event.key === 'Escape') {
      isDone.current = true;
      onCancel();
    } else if (event.key === 'Enter' && !event.altKey) commit({ key: 'ArrowDown', shift: false });
    else if (event.key === 'Tab') commit({ key: 'Tab', shift: event.shiftKey });
    else if (event.key === 'Enter') setText(`${text}\n`);
    else return;
    event.preventDefault();
  };
  return (
    <>
      <textarea
        ref={input}
        rows={1}
        className="grid-editor"
        aria-label={`${column.name}, ${column.type}`}
        aria-invalid={problem ? true : undefined}
        aria-describedby={problem ? noteId : undefined}
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={onKeyDown}
        onBlur={() => commit(null)}
        onCopy={(event) => event.stopPropagation()}
        onPaste={(event) => event.stopPropagation()}
        spellCheck={false}
      />
      {problem ? (
        <span id={noteId} role="alert" className="grid-problem">
          {problem}
        </span>
      ) : null}
      {column.choices ? (
        <span className="grid-choices" role="listbox" aria-label="Values">
          {column.choices.map((choice) => (
            <button
              key={choice}
              type="button"
              role="option"
              aria-selected={choice === text}
              tabIndex={-1}
              className="menu-item"
              onMouseDown={(event) => {
                event.preventDefault();
                event.stopPropagation();
                isDone.current = true;
                onCommit(choice, null);
              }}
            >
              {choice}
            </button>
          ))}
        </span>
      ) : null}
    </>
  );
}
