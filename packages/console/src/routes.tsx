// Which address shows what. Everything but the list of projects is loaded when it is first opened.
import { type ComponentType, lazy, type ReactNode } from 'react';
import { Redirect, Route, Switch } from 'wouter';
import { Projects } from './projects/projects.tsx';
import { isUsable, mayManageAccount, mayOperate } from './session/may.ts';
import type { Session } from './session/session.ts';
import { NotAllowed } from './shell/not-allowed.tsx';
import { projectScreens } from './shell/screens.ts';
import { Unusable } from './shell/unusable.tsx';
import { tableInAddress } from './tables/table-name.ts';
import { EmptyState } from './ui/empty-state.tsx';

type ProjectScreen = ComponentType<{ slug: string }>;
const TableScreen = lazy(() => import('./tables/tables.tsx').then(({ Tables }) => ({ default: Tables })));
const Sessions = lazy(() =>
  import('./session/sessions.tsx').then((module) => ({ default: module.Sessions })),
);
const Server = lazy(() => import('./server/server.tsx').then((module) => ({ default: module.Server })));
const Profile = lazy(() => import('./profile/profile.tsx').then((module) => ({ default: module.Profile })));
const Members = lazy(() => import('./people/members.tsx').then((module) => ({ default: module.Members })));
const Audit = lazy(() => import('./audit/audit.tsx').then((module) => ({ default: module.Audit })));
const Account = lazy(() => import('./account/account.tsx').then((module) => ({ default: module.Account })));
const Accounts = lazy(() =>
  import('./accounts/accounts.tsx').then((module) => ({ default: module.Accounts })),
);

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

export function Routes({ session }: { session: Session }) {
  const own = [
    <Route key="profile" path="/profile">
      {session.person ? <Profile /> : <Redirect to="/account/sessions" replace />}
    </Route>,
    <Route key="sessions" path="/account/sessions">
      <Sessions />
    </Route>,
  ];
  if (!isUsable(session)) {
    return (
      <Switch>
        {own}
        <Route>
          <Unusable />
        </Route>
      </Switch>
    );
  }
  const home = session.project ? `/projects/${session.project}/tables` : '/projects';
  const only = (isAllowed: boolean, screen: string, who: string, page: ReactNode) =>
    isAllowed ? page : <NotAllowed screen={screen} who={who} />;
  const isOfAccount = session.scope === 'account';
  return (
    <Switch>
      {own}
      <Route path="/">
        <Redirect to={home} replace />
      </Route>
      <Route path="/projects">
        <Projects />
      </Route>
      <Route path="/server">
        <Server />
      </Route>
      <Route path="/account/members">
        {only(isOfAccount, 'Members', 'members of the account', <Members />)}
      </Route>
      <Route path="/account/settings">
        {only(isOfAccount, 'Account', 'members of the account', <Account />)}
      </Route>
      <Route path="/account/audit">
        {only(mayManageAccount(session), 'Audit log', 'admins of the account', <Audit />)}
      </Route>
      <Route path="/accounts">
        {only(mayOperate(session), 'Accounts', 'operators of the installation', <Accounts />)}
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
          if (!Screen) return <NotFound />;
          const isOpen = projectScreens(session).some(({ path }) => path === screen);
          const title = screen.slice(0, 1).toUpperCase() + screen.slice(1);
          return only(isOpen, title, 'developers of the account', <Screen key={slug} slug={slug} />);
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
