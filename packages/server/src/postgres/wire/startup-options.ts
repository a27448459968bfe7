// Writes settings as the startup parameter `options`. PostgreSQL splits it at spaces; a backslash escapes the next
// character.

export function startupOptions(settings: Readonly<Record<string, string>>): string {
  return Object.entries(settings)
    .map(([name, value]) => `-c ${name}=${value.replace(/[\s\\]/g, '\\$&')}`)
    .join(' ');
}
