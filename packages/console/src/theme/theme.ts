// Light or dark: the system's choice unless the person picked one. Not a secret, so it may be kept in localStorage.
export const themes = ['system', 'light', 'dark'] as const;
export type Theme = (typeof themes)[number];

const storageKey = 'rowhouse.theme';

export function currentTheme(): Theme {
  const stored = localStorage.getItem(storageKey);
  return themes.find((theme) => theme === stored) ?? 'system';
}

export function applyTheme(theme: Theme = currentTheme()) {
  if (theme === 'system') localStorage.removeItem(storageKey);
  else localStorage.setItem(storageKey, theme);
  document.documentElement.dataset.theme = theme;
}
