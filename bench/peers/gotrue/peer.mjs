// Supabase's sign-up and sign-in, a Go program. It has to be built, and nowhere yet could it be: there is no more here
// than what tells why.
import { goProgram } from '../parts.mjs';

const { install } = goProgram(import.meta.dirname, 'github.com/supabase/auth', 'v2.180.0');

export const about = { name: 'GoTrue', what: 'sign-up and sign-in' };
export { install };
export const versions = () => ['github.com/supabase/auth v2.180.0'];

export async function start() {
  throw new Error('it can be built here, but the benchmark does not know yet how to start it');
}
