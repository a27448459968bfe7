// A deadline for AbortSignal.any(). Node.js 20 frees an AbortSignal.timeout() that only AbortSignal.any() refers to, and then it
// never fires.

export function timeoutSignal(ms: number): AbortSignal {
  const controller = new AbortController();
  const end = () => controller.abort(new DOMException('The time is over.', 'TimeoutError'));
  setTimeout(end, ms).unref();
  return controller.signal;
}
