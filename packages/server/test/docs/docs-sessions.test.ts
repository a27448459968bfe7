// The pages that a newcomer follows first: each console session in them gives the output that the page shows.
import { expectSessions } from './sessions.ts';

expectSessions(['README.md', 'docs/quickstart.md', 'docs/query.md', 'docs/tables.md']);
