// Each console session in every page gives the output that the page shows.
import { expectSessions, pages } from './sessions.ts';

expectSessions(pages);
