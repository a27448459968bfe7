// The one error of the readers: the bytes are not a dump, or not a whole one.

export class BrokenDump extends Error {
  override readonly name = 'BrokenDump';
  readonly hint: string | undefined;

  constructor(problem: string, hint?: string) {
    super(problem);
    this.hint = hint;
  }
}

/** `missing`: what is not there any more. */
export function endsTooEarly(missing?: string, hint?: string): BrokenDump {
  const again = 'Upload the whole file again.';
  return new BrokenDump(
    missing === undefined ? 'the dump ends too early' : `the dump ends too early: ${missing}`,
    hint === undefined ? again : `${again} ${hint}`,
  );
}
