// The session for components.
import { createContext, useContext, useSyncExternalStore } from 'react';
import { type Session, sessionState, subscribe } from './session.ts';

export const useSessionState = () => useSyncExternalStore(subscribe, sessionState);

export const SessionContext = createContext<Session | null>(null);

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (!session) throw new Error('useSession outside of a signed-in page');
  return session;
}
