import type { ButtonHTMLAttributes, ReactNode, Ref } from 'react';
import { Spinner } from './spinner.tsx';

type Props = Omit<ButtonHTMLAttributes<HTMLButtonElement>, 'className'> & {
  kind?: 'primary' | 'default' | 'ghost' | 'danger';
  size?: 'default' | 'small';
  icon?: ReactNode;
  isBusy?: boolean;
  isWide?: boolean;
  ref?: Ref<HTMLButtonElement>;
};

export function Button({
  kind = 'default',
  size = 'default',
  icon,
  isBusy = false,
  isWide = false,
  type = 'button',
  disabled,
  children,
  ...rest
}: Props) {
  const classes = [
    'button',
    `button-${kind}`,
    size === 'small' ? 'button-small' : '',
    isWide ? 'button-wide' : '',
  ];
  if (!children) classes.push('button-icon');
  return (
    <button
      {...rest}
      type={type}
      className={classes.join(' ')}
      disabled={disabled || isBusy}
      aria-busy={isBusy}
    >
      {isBusy ? <Spinner /> : icon}
      {children ? <span className="button-label">{children}</span> : null}
    </button>
  );
}

/** A button with only an icon. The label is its accessible name and its tooltip. */
export function IconButton({ label, ...rest }: Omit<Props, 'children'> & { label: string }) {
  return <Button kind="ghost" {...rest} aria-label={label} title={label} />;
}
