// The one error of the readers: the bytes are not a dump, or not a whole one.

export class BrokenDump extends Error {
  override readonly name = 'BrokenDump';
  readonly hint: string | undefined;

  constructor(problem: string, hint?: string) {
    super(problem);
    this.hint = hint;
  }
}

export function endsTooEarly(): BrokenDump {
  return new BrokenDump('the dump ends too early', 'Upload the whole file again.');
}
