// Settings as one startup parameter. PostgreSQL divides it at spaces; a backslash takes away the meaning of the next
// character.

export function startupOptions(settings: Readonly<Record<string, string>>): string {
  return Object.entries(settings)
    .map(([name, value]) => `-c ${name}=${value.replace(/[\s\\]/g, '\\$&')}`)
    .join(' ');
}
