// The frame of a screen: its title, its actions, its content.
import { type ReactNode, useEffect } from 'react';

type Props = { title: string; about?: ReactNode; actions?: ReactNode; children: ReactNode; isWide?: boolean };

export function Page({ title, about, actions, children, isWide = false }: Props) {
  usePageTitle(title);
  return (
    <div className={isWide ? 'page page-wide' : 'page'}>
      <header className="page-head">
        <div>
          <h1>{title}</h1>
          {about ? <p className="muted">{about}</p> : null}
        </div>
        {actions ? <div className="page-actions">{actions}</div> : null}
      </header>
      {children}
    </div>
  );
}

export function usePageTitle(title: string) {
  useEffect(() => {
    document.title = `${title} · Rowhouse`;
  }, [title]);
}

export function Section({ title, about, actions, children }: Omit<Props, 'isWide'>) {
  return (
    <section className="section">
      <header className="section-head">
        <div>
          <h2>{title}</h2>
          {about ? <p className="muted">{about}</p> : null}
        </div>
        {actions}
      </header>
      {children}
    </section>
  );
}
