import { useEffect, useState } from 'react';
import { Button, IconButton } from './button.tsx';
import { Icon } from './icons.tsx';
import { toast } from './toast.tsx';

/** Copies a text. With a label it is an ordinary button. */
export function Copy({ text, label }: { text: string; label?: string }) {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = setTimeout(() => setCopied(false), 1_500);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = () => navigator.clipboard.writeText(text).then(() => setCopied(true), toast.failed);
  const icon = <Icon name={isCopied ? 'check' : 'copy'} />;
  if (label) {
    return (
      <Button size="small" icon={icon} onClick={copy}>
        {isCopied ? 'Copied' : label}
      </Button>
    );
  }
  return <IconButton size="small" label={isCopied ? 'Copied' : 'Copy'} icon={icon} onClick={copy} />;
}
