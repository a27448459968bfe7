// CodeMirror in a shadow root: there it uses adopted stylesheets, which the content security policy allows. Outside, it
// would write a <style> element, which the policy forbids.
import {
  acceptCompletion,
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  closeCompletion,
  completionKeymap,
  completionStatus,
} from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { PostgreSQL, type SQLNamespace, sql } from '@codemirror/lang-sql';
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from '@codemirror/language';
import { Compartment, EditorState } from '@codemirror/state';
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  keymap,
  lineNumbers,
  placeholder,
} from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { useEffect, useRef } from 'react';

export type EditorHandle = { text: () => string; selection: () => { from: number; to: number } };

type Props = {
  /** A new key opens a new document. */
  documentKey: string;
  initial: string;
  schema: SQLNamespace;
  onChange: (text: string) => void;
  onRun: () => void;
  onSave: () => void;
  onHandle: (handle: EditorHandle | null) => void;
};

export function Editor({ documentKey, initial, schema, onChange, onRun, onSave, onHandle }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const latest = useRef({ onChange, onRun, onSave, onHandle, initial, schema });
  latest.current = { onChange, onRun, onSave, onHandle, initial, schema };
  const view = useRef<EditorView | null>(null);
  const language = useRef(new Compartment());

  useEffect(() => {
    const parent = host.current;
    if (!parent || documentKey === '') return;
    const root = parent.shadowRoot ?? parent.attachShadow({ mode: 'open' });
    const editor = new EditorView({
      parent: root,
      root,
      state: EditorState.create({
        doc: latest.current.initial,
        extensions: [
          keymap.of([
            {
              key: 'Mod-Enter',
              run: (view) => {
                closeCompletion(view);
                latest.current.onRun();
                return true;
              },
            },
            {
              key: 'Mod-s',
              run: () => {
                latest.current.onSave();
                return true;
              },
            },
          ]),
          extensions,
          language.current.of(languageOf(latest.current.schema)),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) latest.current.onChange(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = editor;
    latest.current.onHandle({
      text: () => editor.state.doc.toString(),
      selection: () => editor.state.selection.main,
    });
    editor.focus();
    return () => {
      latest.current.onHandle(null);
      view.current = null;
      editor.destroy();
    };
  }, [documentKey]);

  useEffect(() => {
    view.current?.dispatch({ effects: language.current.reconfigure(languageOf(schema)) });
  }, [schema]);

  return <div ref={host} className="sql-editor" />;
}

const languageOf = (schema: SQLNamespace) =>
  sql({ dialect: PostgreSQL, schema, defaultSchema: 'public', upperCaseKeywords: false });

const highlight = HighlightStyle.define([
  { tag: tags.keyword, color: 'var(--code-keyword)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--code-string)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--code-number)' },
  { tag: [tags.lineComment, tags.blockComment], color: 'var(--text-3)', fontStyle: 'italic' },
  { tag: [tags.typeName, tags.standard(tags.name)], color: 'var(--code-type)' },
]);

const theme = EditorView.theme({
  '&': { height: '100%', backgroundColor: 'transparent', color: 'var(--text)', fontSize: '13px' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.6' },
  '.cm-content': { caretColor: 'var(--text)', padding: '12px 0' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': {
    backgroundColor: 'transparent',
    color: 'var(--text-3)',
    border: 'none',
    paddingLeft: '8px',
  },
  '.cm-activeLine': { backgroundColor: 'color-mix(in srgb, var(--bg-hover) 60%, transparent)' },
  '.cm-selectionBackground, &.cm-focused .cm-selectionBackground': {
    backgroundColor: 'var(--accent-soft) !important',
  },
  '.cm-placeholder': { color: 'var(--text-3)' },
  '.cm-tooltip': {
    backgroundColor: 'var(--bg-raised)',
    border: '1px solid var(--border)',
    borderRadius: '6px',
    boxShadow: 'var(--shadow-l)',
  },
  '.cm-tooltip-autocomplete > ul > li[aria-selected]': {
    backgroundColor: 'var(--accent-soft)',
    color: 'var(--text)',
  },
  '.cm-completionDetail': { color: 'var(--text-3)', fontStyle: 'normal' },
});

/**
 * Chromium types over a selection by writing an element with a style attribute, which the content security policy reports.
 * So the editor replaces the text itself. Handlers such as the one that closes brackets come first, as usual.
 */
const replaceByTransaction = EditorView.domEventHandlers({
  beforeinput: (event, view) => {
    const { from, to, empty } = view.state.selection.main;
    const { data } = event;
    if (event.inputType !== 'insertText' || event.isComposing || empty || data === null) return false;
    event.preventDefault();
    const insert = () =>
      view.state.update(view.state.replaceSelection(data), { userEvent: 'input.type', scrollIntoView: true });
    const handlers = view.state.facet(EditorView.inputHandler);
    if (!handlers.some((handle) => handle(view, from, to, data, insert))) view.dispatch(insert());
    return true;
  },
});

/** Completions that were still being looked up would open after the focus has left, over the results. */
const closeWithoutFocus = EditorView.updateListener.of(({ state, view }) => {
  if (completionStatus(state) === null || view.hasFocus) return;
  // Not during the update.
  setTimeout(() => view.dom.isConnected && !view.hasFocus && closeCompletion(view));
});

const extensions = [
  lineNumbers(),
  history(),
  drawSelection(),
  indentOnInput(),
  bracketMatching(),
  closeBrackets(),
  // Its icons need a font that not every machine has.
  autocompletion({ icons: false }),
  closeWithoutFocus,
  replaceByTransaction,
  highlightActiveLine(),
  syntaxHighlighting(highlight),
  EditorView.lineWrapping,
  EditorView.contentAttributes.of({
    'aria-label': 'SQL',
    'aria-description': 'Tab indents. Press Esc and then Tab to leave the editor.',
  }),
  placeholder('select * from …    Ctrl Enter runs it'),
  keymap.of([
    { key: 'Tab', run: acceptCompletion },
    ...closeBracketsKeymap,
    ...defaultKeymap,
    ...historyKeymap,
    ...completionKeymap,
    indentWithTab,
  ]),
  theme,
];
