// One request in five languages. The texts use only what the languages bring, except the TypeScript client.
export type Request = {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** After /api/dbaas/v2/. */
  path: string;
  body?: unknown;
};

export const languages = ['cURL', 'TypeScript', 'Python', 'Go', 'Rust'] as const;
export type Language = (typeof languages)[number];

export function snippet(language: Language, origin: string, apiKey: string | null, request: Request): string {
  const url = `${origin}/api/dbaas/v2/${request.path}`;
  const body = request.body === undefined ? null : escapeUnseen(JSON.stringify(request.body));
  return writers[language]({ url, apiKey, method: request.method, body });
}

/** `apiKey` null: the program reads it from its environment. */
type Parts = { url: string; apiKey: string | null; method: string; body: string | null };

/**
 * Characters that cannot be seen, or that change the order in which others are: a person could not tell what the program
 * sends. Rust rejects some of them, Go others. Each language passes the escapes of JSON on, which has none for a character
 * above U+FFFF: it becomes two.
 */
function escapeUnseen(json: string): string {
  return json.replace(/[\u007f-\u009f\p{Cf}\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}]/gu, (character) =>
    character
      .split('')
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
      .join(''),
  );
}

/** A quote and # would end it. In JSON, # occurs in strings only, where it can be escaped. */
const rawString = (json: string) => `r#"${json.replaceAll('"#', String.raw`"\u0023`)}"#`;

/** As an expression. In an object, __proto__ would not be a property. */
const toJson = (body: string) => (body.includes('"__proto__"') ? string(body) : `JSON.stringify(${body})`);

const shell = (text: string) => `'${text.replaceAll("'", String.raw`'\''`)}'`;
const string = (text: string) => JSON.stringify(text);
const keyOr = (apiKey: string | null, variable: string) => (apiKey === null ? variable : string(apiKey));

const writers: Record<Language, (parts: Parts) => string> = {
  cURL: ({ url, apiKey, method, body }) =>
    [
      `curl ${method === 'GET' || (method === 'POST' && body) ? '' : `-X ${method} `}${shell(url)}`,
      `  -H ${apiKey === null ? '"X-API-Key: $ROWHOUSE_API_KEY"' : shell(`X-API-Key: ${apiKey}`)}`,
      ...(body ? [`  -H 'Content-Type: application/json'`, `  -d ${shell(body)}`] : []),
    ].join(' \\\n'),
  TypeScript: ({ url, apiKey, method, body }) =>
    [
      `const response = await fetch(${string(url)}, {`,
      `  method: ${string(method)},`,
      `  headers: { 'X-API-Key': ${keyOr(apiKey, 'process.env.ROWHOUSE_API_KEY')}${body ? `, 'Content-Type': 'application/json'` : ''} },`,
      ...(body ? [`  body: ${toJson(body)},`] : []),
      '});',
      'console.log(await response.json());',
    ].join('\n'),
  Python: ({ url, apiKey, method, body }) =>
    [
      `import json, ${apiKey === null ? 'os, ' : ''}urllib.request`,
      '',
      'request = urllib.request.Request(',
      `    ${string(url)},`,
      ...(body ? [`    data=${string(body)}.encode(),`] : []),
      `    headers={"X-API-Key": ${keyOr(apiKey, 'os.environ["ROWHOUSE_API_KEY"]')}${body ? ', "Content-Type": "application/json"' : ''}},`,
      `    method=${string(method)},`,
      ')',
      'with urllib.request.urlopen(request) as response:',
      '    print(json.load(response))',
    ].join('\n'),
  Go: ({ url, apiKey, method, body }) =>
    [
      `body := strings.NewReader(${body ? `\`${body.replaceAll('`', '` + "`" + `')}\`` : '""'})`,
      `request, _ := http.NewRequest(${string(method)}, ${string(url)}, body)`,
      `request.Header.Set("X-API-Key", ${keyOr(apiKey, 'os.Getenv("ROWHOUSE_API_KEY")')})`,
      ...(body ? ['request.Header.Set("Content-Type", "application/json")'] : []),
      'response, err := http.DefaultClient.Do(request)',
      'if err != nil {',
      '\tlog.Fatal(err)',
      '}',
      'defer response.Body.Close()',
      'io.Copy(os.Stdout, response.Body)',
    ].join('\n'),
  Rust: ({ url, apiKey, method, body }) =>
    [
      '// Cargo.toml: ureq = "2"',
      `let text = ureq::request(${string(method)}, ${string(url)})`,
      `    .set("X-API-Key", ${keyOr(apiKey, '&std::env::var("ROWHOUSE_API_KEY")?')})`,
      ...(body
        ? ['    .set("Content-Type", "application/json")', `    .send_string(${rawString(body)})?`]
        : ['    .call()?']),
      '    .into_string()?;',
      'println!("{text}");',
    ].join('\n'),
};
