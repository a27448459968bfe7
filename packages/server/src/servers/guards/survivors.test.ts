import { expect, it } from 'vitest';
import type { Server } from '../server.ts';
import { openSurvivors } from './survivors.ts';

it('two servers can have a survivor with the same process id: each counts until it is gone itself', () => {
  const told: string[] = [];
  const note = (_details: object, message: string) => void told.push(message);
  const [first, other] = [1, 2].map((id) => ({ id, name: `server ${id}` }) as Server) as [Server, Server];
  const survivors = openSurvivors(first, undefined, { error: note, warn: note });
  const here = { projectId: 'one', server: first, pid: 4711 };
  const there = { projectId: 'two', server: other, pid: 4711 };
  survivors.note(here);
  survivors.note(there);
  expect(survivors.count()).toBe(2);
  expect(told).toHaveLength(2);
  survivors.gone(here);
  expect(survivors.count()).toBe(1);
  survivors.gone(there);
  expect(survivors.count()).toBe(0);
  survivors.stop();
});
