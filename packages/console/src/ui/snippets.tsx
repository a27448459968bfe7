import { useState } from 'react';
import { Code } from './code.tsx';
import { type Language, languages, type Request, snippet } from './snippet-texts.ts';
import { Tabs } from './tabs.tsx';

const tabs = languages.map((language) => ({ key: language, label: language }));

type Props = { slug: string; apiKey?: string; request?: Request };

/** A request as a program. Without a request: a first statement. */
export function Snippets({ slug, apiKey, request }: Props) {
  const [language, setLanguage] = useState<Language>('cURL');
  const shown = request ?? {
    method: 'POST' as const,
    path: `projects/${slug}/query`,
    body: { query: 'select now()' },
  };
  return (
    <Tabs label="Languages" tabs={tabs} current={language} onChange={setLanguage}>
      <Code text={snippet(language, location.origin, apiKey ?? null, shown)} />
    </Tabs>
  );
}
