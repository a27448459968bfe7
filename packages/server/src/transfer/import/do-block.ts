// DO blocks that catch errors: PostgreSQL does not say what they caught, so nobody knows what they left out.

/** Whether the block may have hidden a failure. A handler in a function that it calls is not seen. */
export function catchesErrors(text: string): boolean {
  return handler.test(text) && !(text.length < maxChars && onlyDuplicates.test(text));
}

/** RAISE EXCEPTION is none. */
const handler = /(?<!\braise\s{1,20})\bexception\b/i;
const maxChars = 4_000;
/** One statement that makes what is there already, as several schema tools write it. */
const onlyDuplicates =
  /^do\s+\$(\w*)\$\s*begin\b[^;$]+;\s*exception\s+when\s+duplicate_\w+(?:\s+or\s+duplicate_\w+)*\s+then\s+null\s*;\s*end\s*;?\s*\$\1\$\s*;?$/i;
