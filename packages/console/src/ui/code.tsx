// A text to copy: a key, a command, a program.
import { Copy } from './copy.tsx';

export function Code({ text, label }: { text: string; label?: string }) {
  return (
    <figure className="code">
      {label ? <figcaption>{label}</figcaption> : null}
      <pre>
        <code>{text}</code>
      </pre>
      <span className="code-copy">
        <Copy text={text} />
      </span>
    </figure>
  );
}

/** A secret on one line. */
export function SecretLine({ text, label }: { text: string; label: string }) {
  return (
    <div className="secret">
      <span className="visually-hidden">{label}</span>
      <code>{text}</code>
      <Copy text={text} label="Copy" />
    </div>
  );
}
