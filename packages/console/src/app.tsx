// The whole console on one screen: which address shows what. Everything but the list of projects is loaded when it is
// first opened.
import { QueryClientProvider } from '@tanstack/react-query';
import { type ComponentType, lazy, Suspense, useEffect } from 'react';
import { Redirect, Route, Router, Switch } from 'wouter';
import { queryClient } from './api/queries.ts';
import { Projects } from './projects/projects.tsx';
import { ConfirmDialog } from './session/confirm-dialog.tsx';
import { DiscardDialog } from './session/discard-dialog.tsx';
import { followLinks, type Session, start } from './session/session.ts';
import { SignIn } from './session/sign-in.tsx';
import { SessionContext, useSessionState } from './session/use-session.ts';
import { Crash } from './shell/crash.tsx';
import { Shell } from './shell/shell.tsx';
import { tableInAddress } from './tables/table-name.ts';
import { EmptyState } from './ui/empty-state.tsx';
import { ErrorState } from './ui/error-state.tsx';
import { Skeleton } from './ui/skeleton.tsx';
import { Toasts } from './ui/toast.tsx';
import { forgetActing } from './users/acting.ts';

type ProjectScreen = ComponentType<{ slug: string }>;
const TableScreen = lazy(() => import('./tables/tables.tsx').then(({ Tables }) => ({ default: Tables })));
const Sessions = lazy(() =>
  import('./session/sessions.tsx').then((module) => ({ default: module.Sessions })),
);
const Server = lazy(() => import('./server/server.tsx').then((module) => ({ default: module.Server })));

/** The screens of a project, by the last part of their address. */
const screens: Record<string, ProjectScreen> = {
  sql: lazy(() => import('./sql/sql.tsx').then(({ Sql }) => ({ default: Sql }))),
  schema: lazy(() => import('./schema/schema.tsx').then(({ Schema }) => ({ default: Schema }))),
  users: lazy(() => import('./users/users.tsx').then(({ Users }) => ({ default: Users }))),
  keys: lazy(() => import('./keys/keys.tsx').then(({ Keys }) => ({ default: Keys }))),
  usage: lazy(() => import('./usage/usage.tsx').then(({ Usage }) => ({ default: Usage }))),
  logs: lazy(() => import('./logs/logs.tsx').then(({ Logs }) => ({ default: Logs }))),
  api: lazy(() => import('./reference/reference.tsx').then(({ Reference }) => ({ default: Reference }))),
  settings: lazy(() => import('./settings/settings.tsx').then(({ Settings }) => ({ default: Settings }))),
};

export function App() {
  const state = useSessionState();
  useEffect(() => {
    void start();
    return followLinks();
  }, []);
  return (
    <QueryClientProvider client={queryClient}>
      <Toasts />
      {state.status === 'failed' ? (
        <main className="sign-in">
          <ErrorState error={state.error} onRetry={() => void start()} isPage />
        </main>
      ) : null}
      {state.status === 'signed-out' ? <SignIn reason={state.reason} /> : null}
      {state.status === 'signed-in' ? <Console key={state.session.id} session={state.session} /> : null}
      <DiscardDialog />
    </QueryClientProvider>
  );
}

function Console({ session }: { session: Session }) {
  // Answers of an earlier session must not be shown in this one.
  useEffect(
    () => () => {
      forgetActing();
      queryClient.clear();
    },
    [],
  );
  return (
    <SessionContext value={session}>
      <Router base="/console">
        <Shell>
          <Crash>
            <Suspense fallback={<Skeleton lines={8} />}>
              <Routes session={session} />
            </Suspense>
          </Crash>
        </Shell>
      </Router>
      <ConfirmDialog />
    </SessionContext>
  );
}

function Routes({ session }: { session: Session }) {
  const home = session.project ? `/projects/${session.project}/tables` : '/projects';
  return (
    <Switch>
      <Route path="/">
        <Redirect to={home} replace />
      </Route>
      <Route path="/projects">
        <Projects />
      </Route>
      <Route path="/server">
        <Server />
      </Route>
      <Route path="/account/sessions">
        <Sessions />
      </Route>
      <Route path="/projects/:slug">
        {({ slug }) => <Redirect to={`/projects/${slug}/tables`} replace />}
      </Route>
      <Route path="/projects/:slug/tables/:table?">
        {({ slug, table }) => (
          <TableScreen key={slug} slug={slug} table={table ? tableInAddress(location.pathname) : null} />
        )}
      </Route>
      <Route path="/projects/:slug/:screen">
        {({ slug, screen }) => {
          const Screen = Object.hasOwn(screens, screen) ? screens[screen] : undefined;
          return Screen ? <Screen key={slug} slug={slug} /> : <NotFound />;
        }}
      </Route>
      <Route>
        <NotFound />
      </Route>
    </Switch>
  );
}

function NotFound() {
  return (
    <EmptyState icon="search" title="There is no such page" isPage>
      Check the address, or press Ctrl K to find what you need.
    </EmptyState>
  );
}
