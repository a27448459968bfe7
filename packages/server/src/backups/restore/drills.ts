// A drill every night, by the process that does the background work. A failure is loud, and tried again within the hour.
import { findSetting, putSetting } from '../../control/settings.ts';
import { pause } from '../../pause.ts';
import type { Backups } from '../backups.ts';
import { runDrill } from './drill.ts';
import type { RestoreDeps } from './restores.ts';

type Log = Record<'info' | 'error', (details: object, message: string) => void>;

export type Drills = {
  run(ended: AbortSignal): Promise<void>;
  failures(): number;
  /** When a restore was last proven. null: never. */
  verifiedAt(): Promise<number | null>;
};

const hourMs = 60 * 60_000;
const lookMs = 60_000;
/** By UTC. A machine that sleeps at night has its drill later. */
const [fromHour, toHour] = [1, 5];
const [usualMs, latestMs] = [20 * hourMs, 30 * hourMs];

export function openDrills(
  deps: RestoreDeps,
  place: { dataFolder: string; backups: Backups },
  log: Log,
): Drills {
  const { control, now } = deps;
  let failures = 0;
  let retryAt = 0;

  const verifiedAt = async () => Date.parse((await findSetting(control, 'drilled_at')) ?? '') || null;

  const drill = async (ended: AbortSignal): Promise<void> => {
    const done = await runDrill(deps, place, ended);
    if (!done) return;
    if (done.problems.length > 0) throw new Error(`${done.slug}: ${done.problems.slice(0, 20).join('; ')}`);
    await putSetting(control, 'drilled_at', new Date(now()).toISOString());
    await putSetting(control, 'drill_problem', '');
    log.info(done, 'a project was restored aside and equals the live one');
  };

  return {
    failures: () => failures,
    verifiedAt,
    run: async (ended) => {
      // After a first start there is nothing to restore yet: the first night is soon enough.
      const startedAt = now();
      while (!ended.aborted) {
        try {
          const last = (await verifiedAt()) ?? startedAt;
          if (now() >= retryAt && isDue(last, now())) await drill(ended);
        } catch (error) {
          if (ended.aborted) return;
          failures++;
          retryAt = now() + hourMs;
          log.error({ err: error }, 'A RESTORE DRILL FAILED: backups may not be restorable');
          // For doctor. Without the control database there are louder problems.
          await putSetting(control, 'drill_problem', String(error).slice(0, 500)).catch(() => {});
        }
        await pause(lookMs, ended);
      }
    },
  };
}

export function isDue(last: number, now: number): boolean {
  const hour = new Date(now).getUTCHours();
  const isNight = hour >= fromHour && hour < toHour;
  return now - last >= (isNight ? usualMs : latestMs);
}
